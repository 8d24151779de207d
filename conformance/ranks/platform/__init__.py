"""Starting and ending processes, on Linux and on Windows."""
