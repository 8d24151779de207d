"""The command line of a bisect."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from conformance.hosts import provenance
from conformance.matrix import MatrixError, load_matrix
from conformance.matrix.stack import DEFAULT_STACK
from conformance.model.cell import matches
from conformance.model.exit_code import ExitCode
from conformance.model.planned_cell import DEFAULT_INTEGRATION
from tools.bisect.errors import BisectError, TroubleError
from tools.bisect.hunt import hunt
from tools.bisect.question import Question
from tools.bisect.releases import between, releases_of
from tools.bisect.state import State
from tools.bisect.telling import comparison, headline, reasons
from tools.bisect.trial import attempt

DESCRIPTION = "Finds the release of a package with which a cell's verdict changed."
EPILOG = """exit codes: 0 found; 2 wrong usage: an unknown version or cell, nothing between the two, ends that are not
as said; 3 it could not be found: no network, a flaky cell, a harness error. What was tried is kept: the same command
goes on from there"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    words = argparse.ArgumentParser(prog="bisect", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False)
    words.add_argument("cell", metavar="CELL", help="a cell's id, or a glob that only one id matches")
    words.add_argument("--good", required=True, metavar="V", help="a release with which the cell is as it should be")
    words.add_argument("--bad", required=True, metavar="V", help="a release with which it fails; may be the older one")
    words.add_argument("--package", default="deepspeed", metavar="NAME", help="whose releases (default: deepspeed)")
    words.add_argument("--lane", default="windows_gloo" if sys.platform == "win32" else "linux_gloo", metavar="NAME")
    words.add_argument("--transport", metavar="NAME", help="default: the lane's first")
    words.add_argument("--stack", default=DEFAULT_STACK, metavar="NAME", help="the stack that is installed here")
    words.add_argument("--integration", default=DEFAULT_INTEGRATION, metavar="NAME")
    words.add_argument("--any-change", action="store_true", help="the verdicts need only differ: FAIL → CRASH, …")
    words.add_argument(
        "--repeats", type=_count, default=2, metavar="N", help="runs of the last two releases (default: 2)"
    )
    words.add_argument("--index-url", metavar="URL", help="an index to take the package from")
    words.add_argument("--state", type=Path, metavar="FILE", help="what was found so far (default: in results/bisect)")
    words.add_argument("--fresh", action="store_true", help="forget what was found so far")
    return words


def main(arguments: Sequence[str]) -> int:
    """Run one bisect and return its exit code."""
    options = parser().parse_args(arguments)
    console = Console(highlight=False, soft_wrap=True)

    def say(text: str) -> None:
        console.print(Text(text))

    try:
        question = _question(options)
        path = options.state or Path("results") / "bisect" / f"{question.slug}.json"
        state = State(path, question, fresh=options.fresh)
        if state.answers:
            say(f"goes on from {path}: {len(state.answers)} releases tried before")
        every = releases_of(question.package, index_url=options.index_url)
        releases = between(every, question.good, question.bad, question.package)
        say(f"{len(releases)} releases of {question.package} from {releases[0]} to {releases[-1]}")
        finding = hunt(
            releases,
            state,
            lambda release: attempt(question, release, index_url=options.index_url),
            repeats=options.repeats,
            say=say,
        )
    except (BisectError, MatrixError) as error:
        print(f"error: {error}", file=sys.stderr)
        return int(ExitCode.USAGE)
    except (TroubleError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return int(ExitCode.HARNESS)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return int(ExitCode.HARNESS)
    say("")
    say(headline(question, finding))
    Console(highlight=False).print(reasons(finding))
    address = comparison(question.package, finding.last.release, finding.first.release)
    if address is not None:
        say(f"what changed upstream: {address}")
    say(f"every release that was tried: {path}")
    return int(ExitCode.AS_EXPECTED)


def _question(options: argparse.Namespace) -> Question:
    """The question that the options ask.

    Raises:
        BisectError, MatrixError: they name no lane, stack or cell.
    """
    matrix = load_matrix()
    for option, found, known in (("--lane", options.lane, matrix.lanes), ("--stack", options.stack, matrix.stacks)):
        if found not in known:
            raise BisectError(f"{option}: found {found!r}, expected one of {', '.join(known)}")
    here = [cell for cell in matrix.cells if cell.lanes is None or options.lane in cell.lanes]
    ids = [cell.id for cell in here if matches(options.cell, cell.id)]
    if len(ids) != 1:
        some = f", such as {', '.join(ids[:3])}" if ids else ""
        raise BisectError(f"CELL: {options.cell!r} matches {len(ids)} cells of lane {options.lane}{some}; expected one")
    commit, _ = provenance.sources()
    return Question(
        cell=ids[0],
        lane=options.lane,
        transport=options.transport,
        stack=options.stack,
        integration=options.integration,
        package=options.package,
        good=options.good,
        bad=options.bad,
        any_change=options.any_change,
        sources=commit or "",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
