"""The file that a fresh interpreter runs to become a rank or a agent: `python -P start.py rank|agent`.

Run by path, since a fresh interpreter does not yet know where the package is.
"""

import sys
from pathlib import Path


def main() -> None:
    """Find the package, then become what the first argument says."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    role = sys.argv.pop(1)
    if role == "agent" and sys.platform == "linux":
        from conformance.ranks.platform import agent

        agent.main()
    else:
        from conformance.ranks.inside import worker

        worker.main()


if __name__ == "__main__":
    main()
