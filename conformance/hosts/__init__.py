"""What a lane needs of a host, and how that is found out."""
