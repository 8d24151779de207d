"""The command line: `python -m reports build|diff|publish …`."""

from __future__ import annotations

import sys

from reports.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
