"""What the harness and the processes that it starts say to each other, and how."""
