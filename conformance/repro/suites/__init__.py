"""How the cells of each suite look in short: `SHORT`, by integration and case."""
