"""`python -m tools.ops`: builds DeepSpeed's ops once, so that no rank has to; `--list` shows how they stand."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from conformance.hosts import probes
from conformance.hosts.inherited import inherited
from conformance.hosts.ops import probe as ops
from conformance.hosts.ops.survey import BUILDABLE, BUILT, WANTED, Op, SurveyError, survey
from tools.ops.build import Build, build

DEADLINE = 900.0
FAILED, USAGE, NOTHING = 1, 2, 3
CHILD = (sys.executable, "-m", "tools.ops.child")


def main(words: Sequence[str] | None = None, child: Sequence[str] = CHILD) -> int:
    """Run the command line `words` (default: this process's) and return the exit code: 0 when all was built that can
    be, 1 when a build failed, 2 for wrong usage, 3 when nothing is built and nothing can be.

    Args:
        child: the command that stands for `tools.ops.child`.
    """
    parser = argparse.ArgumentParser(prog="python -m tools.ops", description=__doc__, allow_abbrev=False)
    parser.add_argument("names", nargs="*", metavar="OP", help=f"only these (default: {', '.join(WANTED)})")
    parser.add_argument(
        "--list", action="store_true", help="show what is built, can be built or lacks what; build nothing"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), help="whose ops (default: cuda where there is a GPU)")
    parser.add_argument("--deadline", type=float, default=DEADLINE, metavar="S", help=f"seconds an op ({DEADLINE:.0f})")
    asked = parser.parse_args(None if words is None else list(words))
    environment = inherited(os.environ)
    if (asked.device or ("cuda" if probes.gpus() else "cpu")) == "cpu":
        environment |= {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    try:
        found = survey([*child, "survey"], environment, names=asked.names or WANTED)
    except SurveyError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    wanted = [op.name for op in found if op.state == BUILDABLE]
    if asked.list or not wanted:
        print(table(found))
        return 0 if asked.list or any(op.state == BUILT for op in found) else NOTHING
    built = []
    for number, name in enumerate(wanted, 1):
        say(f"{name}: building, {number} of {len(wanted)}")
        folder = ops.cache() / name
        log = folder.with_name(f"{name}.log")
        one = build(
            name,
            [*child, "build", name],
            folder=folder,
            log=log,
            deadline=asked.deadline,
            say=say,
            environment=environment,
        )
        say(f"{name}: {f'built in {one.seconds:.0f} s' if not one.problem else one.problem + f', see {log}'}")
        if one.tail:
            print(one.tail, flush=True)
        built.append(one)
    print(table([_after(op, built) for op in found]))
    return FAILED if any(one.problem for one in built) else 0


def _after(op: Op, built: Sequence[Build]) -> Op:
    for one in built:
        if one.name == op.name:
            return Op(op.name, op.state, one.problem) if one.problem else Op(op.name, BUILT, str(ops.cache() / op.name))
    return op


def table(found: Sequence[Op]) -> str:
    """One line an op."""
    width = max((len(op.name) for op in found), default=0)
    return "\n".join(f"{op.name:<{width}}  {op.state:<9}  {op.words}".rstrip() for op in found)


def say(text: str) -> None:
    """Print at once, whoever reads."""
    print(text, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(128 + signal.SIGTERM))  # compilers end too
    sys.exit(main())
