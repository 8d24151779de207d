"""What a lane needs of a host, what a host can do, and how that is found out."""
