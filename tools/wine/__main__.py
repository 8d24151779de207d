"""`python -m tools.wine make|run|doctor`: Windows programs under Wine from the command line."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from tools.wine import requirements, runner
from tools.wine.build import make, open_environment
from tools.wine.doctor import examine
from tools.wine.environment import FOLDER_VARIABLE, PYTHON_VARIABLE
from tools.wine.errors import WineError

FAILED: Final = 1
USAGE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: this process's) and return the exit code.

    It is 0 when all went well, 1 when an environment cannot be made or does not work, 2 for wrong usage; `run` returns
    the Windows program's own.
    """
    options = _parser().parse_args(arguments)
    try:
        if sys.platform != "linux":
            raise WineError(f"found {sys.platform}, expected Linux: Windows runs Windows programs by itself")
        with _termination_as_interrupt():
            return int(options.call(options))
    except WineError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return runner.INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.wine", description="Windows programs on Linux, under Wine.")
    parser.add_argument("--wine", type=Path, metavar="FILE", help="the program wine64 (default: looked for)")
    commands = parser.add_subparsers(required=True, metavar="make|run|doctor")

    made = commands.add_parser("make", help="build an environment, unless it is there")
    made.add_argument(
        "--python",
        type=Path,
        metavar="FOLDER",
        default=_folder(PYTHON_VARIABLE),
        help=f"an unpacked Windows CPython 3.11 (default: ${PYTHON_VARIABLE})",
    )
    _with_folder(made, "--into", "where the environment is to be")
    made.add_argument("--requirements", type=Path, metavar="FILE", default=requirements.FILE, help="exact pins")
    made.set_defaults(call=_make)

    ran = commands.add_parser("run", help="run a program in an environment")
    _with_folder(ran, "--env", "the environment")
    ran.add_argument("--cwd", type=Path, metavar="FOLDER", help="where to run (default: here)")
    ran.add_argument(
        "--set",
        type=_assignment,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set a variable; may be repeated",
    )
    ran.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- PROGRAM ...", help="such as: python -m pytest")
    ran.set_defaults(call=_run)

    examined = commands.add_parser("doctor", help="tell whether an environment works")
    _with_folder(examined, "--env", "the environment")
    examined.add_argument("--requirements", type=Path, metavar="FILE", default=requirements.FILE, help="exact pins")
    examined.set_defaults(call=_doctor)
    return parser


def _with_folder(parser: argparse.ArgumentParser, option: str, text: str) -> None:
    folder = _folder(FOLDER_VARIABLE)
    parser.add_argument(
        option,
        dest="folder",
        type=Path,
        metavar="DEST",
        default=folder,
        required=folder is None,
        help=f"{text} (default: ${FOLDER_VARIABLE})",
    )


def _folder(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None


def _assignment(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected NAME=VALUE")
    return name, value


def _make(options: argparse.Namespace) -> int:
    if options.python is None:
        raise WineError(
            f"found neither --python nor {PYTHON_VARIABLE}, expected a folder with a Windows CPython 3.11; "
            "install it on any Windows machine and copy its folder, then: --python FOLDER"
        )
    make(options.python, options.folder, requirements=options.requirements, wine=options.wine, say=_say)
    return 0


def _run(options: argparse.Namespace) -> int:
    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    environment = open_environment(options.folder, options.wine)
    return runner.run(environment, argv, cwd=options.cwd, variables=dict(options.set))


def _doctor(options: argparse.Namespace) -> int:
    environment = open_environment(options.folder, options.wine)
    failed = False
    for finding in examine(environment, requirements.read_requirements(options.requirements)):
        _say(str(finding))
        failed = failed or not finding.ok
    return FAILED if failed else 0


def _say(text: str) -> None:
    print(text, flush=True)


@contextlib.contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end the Windows processes as Ctrl-C does, instead of leaving them behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
