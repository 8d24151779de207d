"""The file that a fresh interpreter runs to become a rank or a keeper: `python -P start.py rank|keeper`.

Run by path, since a fresh interpreter does not yet know where the package is.
"""

import sys
from pathlib import Path


def main() -> None:
    """Find the package, then become what the first argument says."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    role = sys.argv.pop(1)
    if role == "keeper" and sys.platform == "linux":
        from conformance.ranks import keeper

        keeper.main()
    else:
        from conformance.ranks import member

        member.main()


if __name__ == "__main__":
    main()
