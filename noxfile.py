"""DeepSpeed conformance harness: `nox -s SESSION -- OPTIONS` hands the options on.

A lane session takes the harness's options (--profile smoke, --suite NAME, --cell GLOB, --list, ...: --help tells all)
and those about its environment: --stack NAME (given several times, a run with each and one report of all),
--mpi impi|mpich|openmpi|msmpi|system|PATH (or CONFORMANCE_MPI), --torch-index URL (or CONFORMANCE_TORCH_INDEX),
--build-ops.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import nox
from nox.command import CommandFailed

if sys.version_info < (3, 11):  # noqa: UP036 - nox may run under any Python
    raise SystemExit(f"error: nox runs under Python {platform.python_version()}, expected 3.11 or later")

ROOT = Path(__file__).resolve().parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import environments  # noqa: E402
from environments import Environment, SetupError  # noqa: E402

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["windows_gloo" if sys.platform == "win32" else "linux_gloo"]
nox.options.error_on_external_run = False

STACKS = ROOT / "matrices" / "stacks"
DEFAULT_STACK = "pinned"
DEVELOP = "develop"
DOCS = "docs"
MPI_VARIABLE = "CONFORMANCE_MPI"
MPI_CHOICES = (*environments.MPI_GROUPS, "msmpi", "system")
PYTEST_VARIABLES = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")
"""What somebody's shell tells pytest for other projects."""
INTERRUPT_SECONDS = 60.0
"""How long a run has after Ctrl-C to stop its ranks and write what it has."""

UNEXPECTED, USAGE, HARNESS = 1, 2, 3
NOTHING_NEWER = 1
MEANINGS = {
    UNEXPECTED: "a FAIL, CRASH, TIMEOUT or XPASS",
    USAGE: "wrong usage or matrix",
    HARNESS: "nothing ran, or ERROR",
}
OPS_MEANINGS = {UNEXPECTED: "an op was not built", USAGE: "wrong usage", HARNESS: "nothing is built, nor can be"}
BISECT_MEANINGS = {USAGE: "wrong usage, or ends that are not as said", HARNESS: "not found; why is said above"}
HOSTS_MEANINGS = {UNEXPECTED: "a verdict differs and nothing explains it", USAGE: "wrong usage"}
DOCS_MEANINGS = {UNEXPECTED: "a warning, or a link that leads nowhere", USAGE: "wrong usage, or no record to read"}
REPORT_MEANINGS = {UNEXPECTED: "a regression", USAGE: "wrong usage, or no record to read"}


@nox.session(venv_backend="none")
def linux_gloo(session: nox.Session) -> None:
    """Lane: Linux, ranks from the environment, gloo, CPU; needs nothing else"""
    run_lane(session, "linux_gloo")


@nox.session(venv_backend="none")
def linux_mpi(session: nox.Session) -> None:
    """Lane: Linux, ranks from mpiexec, gloo or MPI; brings an MPI"""
    run_lane(session, "linux_mpi")


@nox.session(venv_backend="none")
def linux_nccl(session: nox.Session) -> None:
    """Lane: Linux, NCCL, one GPU a rank; needs NVIDIA GPUs and a CUDA build of torch"""
    run_lane(session, "linux_nccl")


@nox.session(venv_backend="none")
def windows_gloo(session: nox.Session) -> None:
    """Lane: Windows, ranks from the environment, gloo, GPU or CPU; needs nothing else"""
    run_lane(session, "windows_gloo")


@nox.session(venv_backend="none")
def windows_mpi(session: nox.Session) -> None:
    """Lane: Windows, ranks from mpiexec, gloo or MPI, GPU or CPU; brings an MPI"""
    run_lane(session, "windows_mpi")


@nox.session(venv_backend="none")
def wine(session: nox.Session) -> None:
    """A Windows lane on Linux under Wine: -- windows_gloo|windows_mpi --python FOLDER"""
    options = options_of(session)
    windows = wine_options(options.rest)
    place = str(environments_folder(session) / "wine")
    with prepared(session, options) as environment:
        made = run(session, environment, "tools.wine", *windows.tool, "make", *windows.interpreter, "--into", place)
        if made != 0:
            quit_with(session, HARNESS, "the Windows environment could not be made; why is said above")
        commit = source_commit(ROOT)
        told = () if commit is None else ("--set", f"CONFORMANCE_GIT_COMMIT={commit}")
        words = ("run", "--env", place, *told, "--", "python", "-m", "conformance", "run", "--lane", windows.lane)
        hand_on(session, run(session, environment, "tools.wine", *windows.tool, *words, *windows.rest))


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """The harness's own tests: -- PYTEST OPTIONS; brings an MPI"""
    if not has_compiler():
        session.log("no C++ compiler on PATH: tests that build ops are reported as not run")
    options = options_of(session)
    with contextlib.ExitStack() as held:
        groups = (DEVELOP, DOCS, *environments.ALL_INTEGRATION_GROUPS)
        environment = held.enter_context(prepared(session, options, *groups))
        # On PATH only: the tests' own environment is one in which mpi4py finds no MPI by itself.
        also = [held.enter_context(prepared(session, options, group)) for group in options.mpi_groups]
        words = ("pytest", *options.rest)
        fail_unless_zero(session, run(session, environment, *words, mpi=options.mpi, also=also, unset=PYTEST_VARIABLES))


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """ruff and mypy --strict; changes nothing"""
    with prepared(session, options_of(session), DEVELOP) as environment:
        checks = (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",))
        fail_unless_zero(session, *[run(session, environment, *check) for check in checks])


@nox.session(venv_backend="none")
def ops(session: nox.Session) -> None:
    """Builds DeepSpeed's compiled ops once, for the cells that need one: -- --list, -- OP..., --deadline S"""
    options = options_of(session)
    with prepared(session, options) as environment:
        hand_on(session, run(session, environment, "tools.ops", *options.rest), OPS_MEANINGS)


@nox.session(venv_backend="none")
def bench(session: nox.Session) -> None:
    """Speed of the harness: -- ranks (forked against cold, the default) or -- transport (MPI against gloo)"""
    options = options_of(session)
    subject, rest = subject_of(options.rest, ("ranks", "transport"))
    mpi, groups = (options.mpi, options.mpi_groups) if subject == "transport" else (None, ())
    with prepared(session, options, *groups) as environment:
        hand_on(session, run(session, environment, f"tools.benchmarks.{subject}", *rest, mpi=mpi))


@nox.session(venv_backend="none")
def bisect(session: nox.Session) -> None:
    """The release that changed a cell's verdict: -- CELL --good V --bad V, --package NAME, --lane NAME"""
    options = options_of(session)
    lane = (named_in(options.rest, "--lane") or ("",))[-1]
    mpi, groups = (options.mpi, options.mpi_groups) if lane.endswith("_mpi") else (None, ())
    words = ["--stack", options.stack]
    if options.torch_index not in (None, "none") and named_in(options.rest, "--package") == ("torch",):
        words += ["--index-url", str(options.torch_index)]
    with prepared(session, options, *options.integration_groups, *groups) as environment:
        code = run(session, environment, "tools.bisect", *words, *options.rest, mpi=mpi)
        hand_on(session, code, BISECT_MEANINGS)


@nox.session(venv_backend="none")
def hosts(session: nox.Session) -> None:
    """A lane under many kinds of host, and whose verdicts differ: -- --kind NAME, --list, --lane NAME, --cell GLOB"""
    options = options_of(session)
    lane = (named_in(options.rest, "--lane") or ("",))[-1]
    mpi, groups = (options.mpi, options.mpi_groups) if lane.endswith("_mpi") else (None, ())
    words = ("--stack", options.stack, *options.rest)
    with prepared(session, options, *groups) as environment:
        hand_on(session, run(session, environment, "tools.hosts", *words, mpi=mpi), HOSTS_MEANINGS)


@nox.session(venv_backend="none")
def report(session: nox.Session) -> None:
    """Records to HTML, Markdown, JUnit and CTRF: -- build RECORDS --into DIR (default: all of results/), -- diff A B"""
    options = options_of(session)
    words = options.rest or ("build", "results", "--into", "results/report")
    with prepared(session, options) as environment:
        hand_on(session, run(session, environment, "reports", *words), REPORT_MEANINGS)


@nox.session(venv_backend="none")
def docs(session: nox.Session) -> None:
    """The site with guides, reference and published report: -- --records RECORDS, --into DIR, --picture"""
    options = options_of(session)
    with prepared(session, options, DOCS) as environment:
        hand_on(session, run(session, environment, "docs", *options.rest), DOCS_MEANINGS)


@nox.session(venv_backend="none")
def lock(session: nox.Session) -> None:
    """Resolves a stack's packages anew and writes its lock file: -- --stack NAME"""
    write_lock(session, STACKS, options_of(session).stack)


@nox.session(venv_backend="none")
def update(session: nox.Session) -> None:
    """Newer pins, and how they change verdicts: -- --stack NAME, --package NAME, --lane NAME, --write"""
    options = options_of(session)
    asked = update_options(options.rest)
    here = Path("results") / "update" / options.stack
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(STACKS.parent, here / "matrices")
    lane = ("conformance", "run", "--lane", asked.lane, "--stack", options.stack, "--profile", "smoke", *asked.rest)
    with prepared(session, options) as old:
        words = (options.stack, *asked.packages, "--matrices", str(here / "matrices"))
        code = run(session, old, "tools.newer", *words)
        if code == NOTHING_NEWER:
            return
        hand_on(session, code)
        write_lock(session, here / "matrices" / "stacks", options.stack)
        with prepared(session, options, stacks=here / "matrices" / "stacks", name="-next") as new:
            before = run(session, old, *lane, "--report-folder", str(here / "old"))
            newer = ("--matrices", str(here / "matrices"), "--report-folder", str(here / "new"))
            after = run(session, new, *lane, *newer)
        if max(before, after) > UNEXPECTED:
            quit_with(session, HARNESS, "one of the two runs did not end as it should; why is said above")
        changed = run(session, old, "reports", "diff", str(here / "old"), str(here / "new"))
    files = [here / "matrices" / "stacks" / f"{options.stack}{end}" for end in (".toml", ".lock.txt")]
    if asked.write:
        for file in files:
            shutil.copyfile(file, STACKS / file.name)
        session.log(f"wrote {', '.join(str(STACKS / file.name) for file in files)}")
    else:
        session.log(f"nothing written; --write takes over {files[0]} and its lock")
    hand_on(session, changed, REPORT_MEANINGS)


# What the sessions are made of


@dataclasses.dataclass(frozen=True)
class Options:
    """What follows `--`, as far as the environment depends on it.

    Attributes:
        stacks: the stacks that environments hold: one, but for lanes.
        mpi: whose MPI: one that the stack brings, or `msmpi`, `system`, or the path of an mpiexec.
        torch_index: where torch comes from; None keeps what the environment has, `none` means the default index.
        build_ops: build DeepSpeed's ops ahead.
        integrations: what is to be driven; `rest` names them too.
        rest: for whatever the session runs.
    """

    stacks: tuple[str, ...]
    mpi: str
    torch_index: str | None
    build_ops: bool
    integrations: tuple[str, ...]
    rest: tuple[str, ...]

    @property
    def stack(self) -> str:
        """The first stack."""
        return self.stacks[0]

    @property
    def mpi_groups(self) -> tuple[str, ...]:
        """The group that holds the MPI; none when the host's own is used."""
        return (self.mpi,) if self.mpi in environments.MPI_GROUPS else ()

    @property
    def integration_groups(self) -> tuple[str, ...]:
        """The groups that hold what the integrations drive, in an order that does not depend on theirs."""
        groups = environments.INTEGRATION_GROUPS
        return tuple(sorted({groups[name] for name in self.integrations if name in groups}))


def split_options(session: str, words: Sequence[str], environ: Mapping[str, str], system: str) -> Options:
    """Take the options about the environment out of `words`. Pure; ends with exit code 2 when one is wrong.

    Args:
        session: the session's name, for messages.
        environ: variables that give defaults.
        system: `sys.platform`.
    """
    parser = argparse.ArgumentParser(prog=f"nox -s {session} --", add_help=False, allow_abbrev=False)
    parser.add_argument("--stack", metavar="NAME", action="append", default=[])
    parser.add_argument("--mpi", metavar="NAME")
    parser.add_argument("--torch-index", metavar="URL", default=environ.get("CONFORMANCE_TORCH_INDEX") or None)
    parser.add_argument("--build-ops", action="store_true")
    known, rest = parser.parse_known_args(list(words))
    mpi = known.mpi or environ.get(MPI_VARIABLE) or ("impi" if system == "win32" else "mpich")
    if mpi not in MPI_CHOICES and not Path(mpi).is_file():
        where = "--mpi" if known.mpi else MPI_VARIABLE
        parser.error(f"{where}: found {mpi!r}, expected one of {', '.join(MPI_CHOICES)}, or the path of an mpiexec")
    stacks = tuple(dict.fromkeys(known.stack)) or (DEFAULT_STACK,)
    if len(stacks) > 1 and not session.startswith(("linux_", "windows_")):
        parser.error(f"--stack: found {', '.join(stacks)}, expected one: only lanes run with several")
    return Options(stacks, mpi, known.torch_index, known.build_ops, named_in(rest, "--integration"), tuple(rest))


def named_in(words: Sequence[str], option: str) -> tuple[str, ...]:
    """What an option names in words for the harness, which gets it too. Pure."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument(option, action="append", nargs="?", default=[], dest="named")
    known, _ = parser.parse_known_args(list(words))
    return tuple(filter(None, known.named))


def options_of(session: nox.Session) -> Options:
    """The options of a session that runs now."""
    return split_options(session.name, session.posargs, os.environ, sys.platform)


def subject_of(words: Sequence[str], subjects: Sequence[str]) -> tuple[str, list[str]]:
    """The first of `words` if it is one of `subjects`, else the first subject; and the other words. Pure."""
    if words and words[0] in subjects:
        return words[0], list(words[1:])
    return subjects[0], list(words)


@dataclasses.dataclass(frozen=True)
class UpdateOptions:
    """What follows `--` in the session `update`.

    Attributes:
        packages: the only packages to raise; none for all.
        lane: what is run with the old and the new pins.
        write: take over the new pins.
        rest: for the lane.
    """

    packages: tuple[str, ...]
    lane: str
    write: bool
    rest: tuple[str, ...]


def update_options(words: Sequence[str]) -> UpdateOptions:
    """Take `words` apart. Pure; ends with exit code 2 when they are wrong."""
    parser = argparse.ArgumentParser(prog="nox -s update --", add_help=False, allow_abbrev=False)
    parser.add_argument("--package", metavar="NAME", action="append", default=[])
    parser.add_argument("--lane", metavar="NAME", default=nox.options.sessions[0])
    parser.add_argument("--write", action="store_true")
    known, rest = parser.parse_known_args(list(words))
    return UpdateOptions(tuple(known.package), known.lane, known.write, tuple(rest))


@dataclasses.dataclass(frozen=True)
class WineOptions:
    """What follows `--` in the session `wine`.

    Attributes:
        lane: a Windows lane.
        tool: options of `python -m tools.wine` itself.
        interpreter: options of its `make`.
        rest: for the lane.
    """

    lane: str
    tool: tuple[str, ...]
    interpreter: tuple[str, ...]
    rest: tuple[str, ...]


def wine_options(words: Sequence[str]) -> WineOptions:
    """Take `words` apart. Pure; ends with exit code 2 when they are wrong."""
    parser = argparse.ArgumentParser(prog="nox -s wine --", add_help=False, allow_abbrev=False)
    parser.add_argument("lane", choices=("windows_gloo", "windows_mpi"))
    parser.add_argument("--python", metavar="FOLDER")
    parser.add_argument("--wine", metavar="FILE")
    known, rest = parser.parse_known_args(list(words))
    return WineOptions(
        lane=known.lane,
        tool=() if known.wine is None else ("--wine", known.wine),
        interpreter=() if known.python is None else ("--python", known.python),
        rest=tuple(rest),
    )


def source_commit(root: Path) -> str | None:
    """The commit of this checkout, with `+` behind it when tracked files differ; None without git."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(root), *words]
        return subprocess.run(command, capture_output=True, check=True, timeout=20, encoding="utf-8").stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def wrong_system(lane: str, system: str) -> str | None:
    """Why a lane cannot run on this system; None if it can. Pure."""
    here = {"win32": "windows", "linux": "linux"}.get(system, system)
    wanted = lane.partition("_")[0]
    if here == wanted:
        return None
    remedy = f"run it on a {wanted.capitalize()} machine"
    if wanted == "windows" and here == "linux":
        remedy += f", or under Wine: nox -s wine -- {lane} --python FOLDER"
    return f"the lane {lane} needs {wanted.capitalize()}, found {here.capitalize()}; {remedy}"


def has_compiler() -> bool:
    """Whether PyTorch could find a C++ compiler to build ops with."""
    return any(map(shutil.which, ("cl",) if sys.platform == "win32" else ("c++", "g++", "clang++")))


def run_lane(session: nox.Session, lane: str) -> None:
    """Run a lane with the options that follow `--`, and end as the harness ends."""
    options = options_of(session)
    why = wrong_system(lane, sys.platform)
    if why is not None and "--list" not in options.rest:
        quit_with(session, USAGE, why)
    if len(options.stacks) == 1 or "--list" in options.rest:
        hand_on(session, run_stack(session, lane, options))
    else:
        hand_on(session, run_stacks(session, lane, options))


def run_stack(session: nox.Session, lane: str, options: Options, *more: str) -> int:
    """Run a lane with one stack and return the exit code; `more` are further words for the harness."""
    words = ["run", "--lane", lane]
    if options.stack != DEFAULT_STACK:
        words += ["--stack", options.stack]
    here = wrong_system(lane, sys.platform) is None
    mpi, groups = (options.mpi, options.mpi_groups) if lane.endswith("_mpi") and here else (None, ())
    with prepared(session, options, *options.integration_groups, *groups) as environment:
        return run(session, environment, "conformance", *words, *options.rest, *more, mpi=mpi)


def run_stacks(session: nox.Session, lane: str, options: Options) -> int:
    """Run a lane with each stack, make one report of all, and return the worst exit code."""
    into = Path((named_in(options.rest, "--report-folder") or (f"results/{lane}-stacks",))[-1])
    for stack in options.stacks:  # All names before the first run, which may take long.
        try:
            environments.read_stack(STACKS, stack)
        except SetupError as error:
            quit_with(session, USAGE, str(error))
    codes = []
    for stack in options.stacks:
        one = dataclasses.replace(options, stacks=(stack,))
        codes.append(run_stack(session, lane, one, "--report-folder", str(into / stack)))
        if codes[-1] == USAGE:
            return USAGE
    folders = [str(into / stack) for stack in options.stacks]
    with prepared(session, options) as environment:
        codes.append(run(session, environment, "reports", "build", *folders, "--into", str(into / "report")))
    return max(codes, key=abs)


def environments_folder(session: nox.Session) -> Path:
    """Where environments lie: .nox, or what nox's --envdir says."""
    return session.cache_dir.parent.resolve()


def write_lock(session: nox.Session, stacks: Path, name: str) -> None:
    """Resolve a stack's packages anew and write its lock file."""
    try:
        stack = environments.read_stack(stacks, name, with_lock=False)
    except SetupError as error:
        quit_with(session, USAGE, str(error))
    folder = Path(session.create_tmp()) / "resolver"
    answer = folder / "report.json"
    session.run_install(sys.executable, "-m", "virtualenv", "--quiet", "--clear", str(folder), external=True)
    kept = folder / "kept.txt"
    kept.write_text(environments.constraints_from_below(stack), encoding="utf-8")
    resolve = [str(Environment(folder).python), "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    resolve += ["--constraint", str(kept), "--report", str(answer), *environments.pins_to_lock(stack)]
    session.run_install(*resolve, env={"DS_BUILD_OPS": "0"}, external=True)
    text = environments.lock_text(stack, json.loads(answer.read_text(encoding="utf-8")))
    stack.lock_file.write_text(text, encoding="utf-8", newline="\n")
    session.log(f"wrote {stack.lock_file}")


@contextlib.contextmanager
def prepared(
    session: nox.Session, options: Options, *groups: str, stacks: Path = STACKS, name: str = ""
) -> Iterator[Environment]:
    """The environment of a stack, or of groups on top of it, made if need be; its end frees it for others.

    Args:
        stacks: the folder with the stack's files.
        name: what to add to the environment's name, for another one than the stack's own.
    """

    def install(command: environments.Command, variables: Mapping[str, str]) -> None:
        session.run_install(*command, env=variables, external=True)

    parent = environments_folder(session)
    with contextlib.ExitStack() as held:
        try:
            stack = environments.read_stack(stacks, options.stack)
            environments.check_python(stack, platform.python_version())
            base = environments.environment_of(parent, environments.recipe(stack))
            recipe = environments.recipe(
                stack,
                groups=groups,
                torch_index=environments.torch_index_of(options.torch_index, base),
                build_ops=options.build_ops,
            )
            if recipe.name == f"stack-{stack.name}":  # With the pins of the stack below, it is that environment.
                recipe = dataclasses.replace(recipe, name=f"{recipe.name}{name}")
            environment = held.enter_context(environments.ready(parent, recipe, install, session.log))
        except SetupError as error:
            quit_with(session, USAGE, str(error))
        except CommandFailed:
            quit_with(session, HARNESS, "the environment could not be made; what failed is said above")
        yield environment


class AnyCode(Iterable[int]):
    """Takes every exit code for a success, and keeps it: nox itself turns all failures into exit code 1."""

    def __init__(self) -> None:
        self.code = 0

    def __contains__(self, code: object) -> bool:
        assert isinstance(code, int)
        self.code = code
        return True

    def __iter__(self) -> Iterator[int]:
        return iter((self.code,))


def run(
    session: nox.Session,
    environment: Environment,
    *words: str,
    mpi: str | None = None,
    also: Sequence[Environment] = (),
    unset: Sequence[str] = (),
) -> int:
    """Run `python -m WORDS` in an environment and return its exit code.

    Args:
        mpi: what CONFORMANCE_MPI says; None leaves it as it is.
        also: environments whose programs are found on PATH too.
        unset: variables that it shall not see; those that are set are named.
    """
    for name in unset:
        if os.environ.get(name):
            session.log(f"{name}={os.environ[name]!r} is set and not used; options follow --")
    ended = AnyCode()
    session.run(
        str(environment.python),
        "-m",
        *words,
        env={
            **environment.variables(os.environ, *also),
            **({} if mpi is None else {MPI_VARIABLE: mpi}),
            **dict.fromkeys(unset),
        },
        external=True,
        success_codes=ended,
        stderr=None,
        interrupt_timeout=INTERRUPT_SECONDS,
        terminate_timeout=INTERRUPT_SECONDS,
    )
    return ended.code


def hand_on(session: nox.Session, code: int, meanings: Mapping[int, str] = MEANINGS) -> None:
    """End the session with the exit code of what it ran.

    nox knows success and failure only, so what is neither ends nox here, and sessions that were to follow do not run.
    """
    if code == UNEXPECTED:
        session.error(f"{meanings[UNEXPECTED]} (exit code 1)")
    if code in meanings:
        quit_with(session, code, meanings[code])
    if code != 0:
        quit_with(session, HARNESS, f"what it ran ended with {code}")


def fail_unless_zero(session: nox.Session, *codes: int) -> None:
    """Fail the session if one of the commands that ended with `codes` failed."""
    if any(codes):
        session.error(f"exit code {max(codes, key=abs)}")


def quit_with(session: nox.Session, code: int, why: str) -> NoReturn:
    """End nox with an exit code of its own, and say why in one line."""
    session.warn(f"Session {session.name}: {why} (exit code {code})")
    raise SystemExit(code)
