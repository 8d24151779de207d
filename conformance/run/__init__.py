"""The one way through: a cell goes in, ranks run, a check judges, a record comes out."""
