"""A rank's own process."""
