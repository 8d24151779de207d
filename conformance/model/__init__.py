"""Values that every room may import: cell, case, setting, verdict, record, exit codes."""
