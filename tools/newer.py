"""Newer pins for a stack: `python -m tools.newer STACK --matrices DIR` writes them into DIR/stacks."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from packaging.version import Version

from conformance.matrix import MatrixError
from conformance.matrix.stack import StackFile
from conformance.matrix.toml_file import read_toml
from conformance.model.exit_code import ExitCode
from tools.bisect.errors import BisectError, TroubleError
from tools.bisect.releases import releases_of

NOTHING_NEWER = 1
EPILOG = "exit codes: 0 newer pins written; 1 nothing is newer; 2 wrong usage; 3 the index cannot be reached"


def newer_pins(pins: Mapping[str, str], releases: Callable[[str], Sequence[str]]) -> dict[str, str]:
    """The newest release of each package that has a newer one than its pin.

    Args:
        releases: a package's releases, oldest first.
    """
    newest = {package: (releases(package) or [pin])[-1] for package, pin in pins.items()}
    return {package: found for package, found in newest.items() if Version(found) > Version(pins[package])}


def raised(text: str, pins: Mapping[str, str], newer: Mapping[str, str]) -> str:
    """A stack file's text with the newer pins in [packages] and in the title, and all else as it was. Pure."""
    head, heading, rest = text.partition("[packages]\n")
    packages, group, groups = rest.partition("\n[")
    for package, version in newer.items():
        old = re.escape(pins[package])
        packages = re.sub(rf'(?m)^("?{re.escape(package)}"? = )"{old}"', rf'\g<1>"{version}"', packages)
        head = re.sub(rf"(?m)^(title = .*?)(?<![\d.]){old}(?![\d.])", rf"\g<1>{version}", head)
    return head + heading + packages + group + groups


def main(arguments: Sequence[str]) -> int:
    """Propose newer pins, write them, and return the exit code."""
    parser = argparse.ArgumentParser(prog="newer", description="Newer pins for a stack.", epilog=EPILOG)
    parser.add_argument("stack", metavar="STACK")
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="only these (default: all that the stack pins)")
    parser.add_argument("--matrices", required=True, type=Path, metavar="DIR", help="a copy of matrices/ to write to")
    options = parser.parse_args(arguments)
    path = options.matrices / "stacks" / f"{options.stack}.toml"
    try:
        pins = read_toml(path, StackFile).packages
        for package in options.packages:
            if package not in pins:
                known = ", ".join(pins)
                raise BisectError(f"--package: found {package!r}, expected one of those in {path.name}: {known}")
        wanted = {name: pin for name, pin in pins.items() if name in options.packages or not options.packages}
        newer = newer_pins(wanted, releases_of)
    except (BisectError, MatrixError) as error:
        print(f"error: {error}", file=sys.stderr)
        return int(ExitCode.USAGE)
    except TroubleError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(ExitCode.HARNESS)
    for package, version in newer.items():
        print(f"{package} {pins[package]} → {version}")
    if not newer:
        print(f"nothing is newer than what {path.name} pins")
        return NOTHING_NEWER
    path.write_text(raised(path.read_text(encoding="utf-8"), pins, newer), encoding="utf-8", newline="\n")
    return int(ExitCode.AS_EXPECTED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
