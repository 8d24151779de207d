"""`python -m docs` builds the site; `nox -s docs` brings what it needs."""

from __future__ import annotations

import sys

from docs.build import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
