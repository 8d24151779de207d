"""The environments that sessions share: what they are made from, when they are made, and by whom."""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import environments
from conformance.integrations import registry
from environments import Environment, SetupError

ROOT = Path(__file__).resolve().parents[2]
STACKS = ROOT / "matrices" / "stacks"

STACK = """
[stack]
name = "small"
title = "Small"
python = ">=3.11,<3.14"
[packages]
torch = "2.13.0"
deepspeed = "0.19.8"
pytest = "9.2.0"
[groups.mpich]
mpich = "5.0.2"
[groups.extra]
rich = "15.0.0"
"""


@pytest.fixture
def small(tmp_path: Path) -> environments.Stack:
    (tmp_path / "small.toml").write_text(STACK, encoding="utf-8")
    (tmp_path / "small.lock.txt").write_text("torch==2.13.0\n", encoding="utf-8")
    return environments.read_stack(tmp_path, "small")


def words_of(steps: list[tuple[environments.Command, dict[str, str]]]) -> list[str]:
    return [" ".join(command) for command, _ in steps]


def steps_of(recipe: environments.Recipe) -> list[tuple[environments.Command, dict[str, str]]]:
    return environments.commands(recipe, environments.environment_of(Path("envs"), recipe))


class TestReading:
    def test_an_unknown_stack_is_told_with_those_that_exist(self, small: environments.Stack) -> None:
        with pytest.raises(SetupError, match=r"found 'big', expected one of those in .*: small$"):
            environments.read_stack(small.lock_file.parent, "big")

    def test_a_missing_lock_names_the_session_that_writes_it(self, small: environments.Stack) -> None:
        small.lock_file.unlink()
        with pytest.raises(
            SetupError, match=r"small\.lock\.txt: not found; write it with: nox -s lock -- --stack small"
        ):
            environments.read_stack(small.lock_file.parent, "small")
        assert environments.read_stack(small.lock_file.parent, "small", with_lock=False).lock == ""

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[stack", "cannot be read"),
            ("[packages]\ntorch = '2.13.0'\n", "stack: missing"),
            ("[stack]\nname = 'small'\n[packages]\n", "python: missing"),
        ],
    )
    def test_a_broken_file_is_one_clear_error(self, small: environments.Stack, text: str, message: str) -> None:
        path = small.lock_file.with_name("small.toml")
        path.write_text(text, encoding="utf-8")
        with pytest.raises(SetupError, match=rf"small\.toml: {message}"):
            environments.read_stack(path.parent, "small")

    def test_the_interpreter_must_fit(self, small: environments.Stack) -> None:
        environments.check_python(small, "3.13.1")
        with pytest.raises(SetupError, match=r"Python 3\.14\.0, expected >=3\.11,<3\.14; start nox with"):
            environments.check_python(small, "3.14.0")

    @pytest.mark.parametrize("name", [path.stem for path in STACKS.glob("*.toml")])
    def test_python_3_14_is_for_stacks_whose_deepspeed_can_be_imported_there(self, name: str) -> None:
        stack = environments.read_stack(STACKS, name)
        deepspeed = tuple(map(int, stack.packages["deepspeed"].split(".")))
        assert ("3.14.0" in environments.SpecifierSet(stack.python)) == (deepspeed >= (0, 18, 6))


class TestOver:
    """A stack that has all but its own packages from another."""

    @pytest.fixture
    def older(self, small: environments.Stack) -> environments.Stack:
        self.write(small, "deepspeed = '0.17.6'", lock="deepspeed==0.17.6\n")
        return environments.read_stack(small.lock_file.parent, "older")

    def write(self, small: environments.Stack, packages: str, more: str = "", lock: str = "") -> None:
        head = f"[stack]\nname = 'older'\ntitle = 'Older'\nover = 'small'\n{more}\n[packages]\n{packages}\n"
        small.lock_file.with_name("older.toml").write_text(head, encoding="utf-8")
        small.lock_file.with_name("older.lock.txt").write_text(lock, encoding="utf-8")

    def test_it_has_what_it_does_not_pin(self, small: environments.Stack, older: environments.Stack) -> None:
        assert older.packages == {**small.packages, "deepspeed": "0.17.6"}
        assert (older.python, older.groups) == (small.python, small.groups)

    def test_its_environment_is_a_layer_with_its_own_packages(self, older: environments.Stack) -> None:
        made = environments.recipe(older, torch_index="https://example.org/cpu")
        assert (made.name, made.requirements, made.torch_index) == ("stack-older", ("deepspeed==0.17.6",), None)
        assert made.below is not None
        assert (made.below.name, made.below.torch_index) == ("stack-small", "https://example.org/cpu")
        create, install = steps_of(made)
        assert "--no-pip" in create[0]
        assert list(install[0][4:6]) == ["--constraint", str(older.lock_file)]
        assert install[1] == {"DS_BUILD_OPS": "0"}

    def test_its_ops_are_built_and_kept_apart(self, older: environments.Stack) -> None:
        made = environments.recipe(older, groups=["extra"], build_ops=True)
        assert made.below is not None
        install, built = steps_of(made.below)[-1]
        assert {"--no-cache-dir", "--no-build-isolation"} <= set(install)
        assert built == {"DS_BUILD_OPS": "1"}
        variables = environments.environment_of(Path("envs"), made).variables({})
        assert variables["TORCH_EXTENSIONS_DIR"] == str(Path("envs") / "stack-older" / "ops")

    def test_its_groups_are_those_of_the_stack_below_with_that_lock(
        self, small: environments.Stack, older: environments.Stack
    ) -> None:
        made = environments.recipe(older, groups=["extra"])
        assert (made.name, made.constraints) == ("stack-older-extra", small.lock_file)

    def test_without_a_difference_it_is_the_environment_below(self, small: environments.Stack) -> None:
        self.write(small, "deepspeed = '0.19.8'")
        same = environments.read_stack(small.lock_file.parent, "older")
        assert environments.recipe(same) == environments.recipe(small)

    def test_torch_comes_from_where_the_stack_below_has_it(self, older: environments.Stack, tmp_path: Path) -> None:
        made = environments.recipe(older, torch_index="https://example.org/cpu")
        environment = environments.environment_of(tmp_path, made)
        with environments.ready(tmp_path, made, Installer(environment), print):
            assert environments.torch_index_of(None, environment) == "https://example.org/cpu"

    @pytest.mark.parametrize("packages", ["torch = '2.12.0'", "deepspeed = '0.17.6'\n[groups.extra]\nrich = '14.0.0'"])
    def test_what_a_layer_cannot_change_is_refused(self, small: environments.Stack, packages: str) -> None:
        self.write(small, packages)
        with pytest.raises(SetupError, match=r"older\.toml: stack\.over: a stack is over one that stands alone"):
            environments.read_stack(small.lock_file.parent, "older")

    def test_versions_that_cannot_work_say_why(self, small: environments.Stack) -> None:
        self.write(small, "deepspeed = '0.1.0'", "refused = 'DeepSpeed 0.1.0 imports torch._six, which is gone'")
        with pytest.raises(SetupError, match=r"^the stack older cannot be used: DeepSpeed 0\.1\.0 imports torch\._six"):
            environments.read_stack(small.lock_file.parent, "older")

    def test_its_lock_holds_what_differs(self, small: environments.Stack, older: environments.Stack) -> None:
        assert environments.constraints_from_below(older) == "torch==2.13.0\n"
        small.lock_file.write_text("torch==2.13.0\ndeepspeed==0.19.8\nhjson==3\n", encoding="utf-8")
        stack = environments.read_stack(small.lock_file.parent, "older")
        assert environments.constraints_from_below(stack) == "torch==2.13.0\nhjson==3\n"
        chosen = {"torch": "2.13.0+cpu", "deepspeed": "0.17.6", "hjson": "3", "py-cpuinfo": "9"}
        report = {"install": [{"metadata": {"name": name, "version": version}} for name, version in chosen.items()]}
        head, *lines = environments.lock_text(stack, report).splitlines()
        assert head.startswith("# Every version that older.toml brings beyond small.lock.txt.")
        assert lines == ["deepspeed==0.17.6", "py-cpuinfo==9"]


class TestCommands:
    def test_a_plain_stack_is_one_install_without_ops(self, small: environments.Stack) -> None:
        create, install = steps_of(environments.recipe(small))
        assert list(create[0][:3]) == [sys.executable, "-m", "virtualenv"]
        assert list(install[0][-3:]) == ["deepspeed==0.19.8", "pytest==9.2.0", "torch==2.13.0"]
        assert list(install[0][4:6]) == ["--constraint", str(small.lock_file)]
        assert install[1] == {"DS_BUILD_OPS": "0"}

    def test_an_index_is_for_torch_alone_and_goes_first(self, small: environments.Stack) -> None:
        _, torch, rest = words_of(steps_of(environments.recipe(small, torch_index="https://example.org/cuda")))
        assert torch.endswith("--no-deps --index-url https://example.org/cuda torch==2.13.0")
        assert "example.org" not in rest
        assert "torch==2.13.0" in rest

    def test_ops_are_built_against_the_installed_torch_and_from_source(self, small: environments.Stack) -> None:
        steps = steps_of(environments.recipe(small, build_ops=True))
        _, rest, deepspeed = words_of(steps)
        assert "torch==2.13.0" in rest
        assert "deepspeed" not in rest
        assert deepspeed.endswith("--no-cache-dir --no-build-isolation deepspeed==0.19.8")
        assert steps[-1][1] == {"DS_BUILD_OPS": "1"}

    @pytest.mark.parametrize(("group", "dependencies"), [("mpich", False), ("extra", True)])
    def test_a_layer_holds_its_group_only(self, small: environments.Stack, group: str, dependencies: bool) -> None:
        create, install = words_of(steps_of(environments.recipe(small, groups=[group])))
        assert create.endswith(f"stack-small-{group} --no-pip")
        assert "torch" not in install
        assert ("--no-deps" in install) is not dependencies

    def test_groups_are_layers_one_on_the_other(self, small: environments.Stack) -> None:
        recipe = environments.recipe(small, groups=["extra", "mpich"])
        assert recipe.name == "stack-small-extra-mpich"
        assert recipe.below == environments.recipe(small, groups=["extra"])
        assert (recipe.requirements, recipe.dependencies) == (("mpich==5.0.2",), False)

    def test_an_unknown_group_is_told(self, small: environments.Stack) -> None:
        with pytest.raises(SetupError, match=r"found no \[groups\.openmpi\] in .*small\.toml"):
            environments.recipe(small, groups=["openmpi"])


class TestVariables:
    def test_programs_of_the_layer_come_before_those_of_the_stack(self, tmp_path: Path) -> None:
        base = Environment(tmp_path / "base")
        layer = Environment(tmp_path / "layer", base)
        path = (layer.variables({"PATH": "before"})["PATH"] or "").split(os.pathsep)
        assert path[0] == str(layer.programs)
        assert path.index(str(base.programs)) < path.index("before")
        assert layer.variables({})["VIRTUAL_ENV"] == str(layer.folder)

    def test_ops_are_the_stacks_own_unless_they_have_a_place(self, tmp_path: Path) -> None:
        layer = Environment(tmp_path / "layer", Environment(tmp_path / "middle", Environment(tmp_path / "stack")))
        assert layer.variables({})["TORCH_EXTENSIONS_DIR"] == str(tmp_path / "stack" / "ops")
        assert layer.variables({"TORCH_EXTENSIONS_DIR": "mine"})["TORCH_EXTENSIONS_DIR"] == "mine"

    def test_programs_of_another_layer_come_last_and_once(self, tmp_path: Path) -> None:
        base = Environment(tmp_path / "base")
        layer, other = Environment(tmp_path / "layer", base), Environment(tmp_path / "other", base)
        path = (layer.variables({"PATH": "before"}, other)["PATH"] or "").split(os.pathsep)
        assert path.count(str(base.programs)) == 1
        assert path.index(str(base.programs)) < path.index(str(other.programs)) < path.index("before")


class Installer:
    """Stands in for running virtualenv and pip: keeps the commands, and makes just the files that are looked for."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.commands: list[environments.Command] = []
        self.fail = False

    def __call__(self, command: environments.Command, variables: Mapping[str, str]) -> None:
        if self.fail:
            raise RuntimeError("no network")
        self.commands.append(command)
        for environment in filter(None, (self.environment, self.environment.below)):
            environment.packages.mkdir(parents=True, exist_ok=True)
            environment.programs.mkdir(exist_ok=True)
            environment.python.touch()


def holder_of(lock: Path) -> subprocess.Popen[str]:
    """Another process, which holds `lock` until it reads a line."""
    program = "import filelock, sys\nwith filelock.FileLock(sys.argv[1]):\n    print('held', flush=True)\n    input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "held"
    return holder


class TestMaking:
    def test_made_once_and_again_when_what_it_holds_changes(self, small: environments.Stack, tmp_path: Path) -> None:
        recipe = environments.recipe(small, groups=["extra"])
        installer = Installer(environments.environment_of(tmp_path, recipe))
        said: list[str] = []
        for _ in range(2):
            with environments.ready(tmp_path, recipe, installer, said.append) as environment:
                assert environment.stamped() == recipe.stamp()
        assert len(installer.commands) == 4, "two for the stack and two for the layer, and none the second time"
        assert len(said) == 2
        assert list((tmp_path / ".users").iterdir()) == []
        small.lock_file.write_text("torch==2.13.0\nrich==15.0.0\n", encoding="utf-8")
        changed = environments.recipe(environments.read_stack(small.lock_file.parent, "small"), groups=["extra"])
        with environments.ready(tmp_path, changed, installer, said.append):
            pass
        assert len(installer.commands) == 8, "a new lock makes both anew"

    def test_a_layer_on_a_layer_sees_all_that_is_below(self, small: environments.Stack, tmp_path: Path) -> None:
        recipe = environments.recipe(small, groups=["extra", "mpich"])
        environment = environments.environment_of(tmp_path, recipe)

        def install(command: environments.Command, variables: Mapping[str, str]) -> None:
            for each in (environment, *environment.all_below()):
                each.packages.mkdir(parents=True, exist_ok=True)

        with environments.ready(tmp_path, recipe, install, print):
            pass
        lines = (environment.packages / environments.LAYER_PATH_FILE).read_text(encoding="ascii").splitlines()
        found = [(environment.packages / line).resolve() for line in lines]
        extra, base = environments.recipe(small, groups=["extra"]), environments.recipe(small)
        below = [environments.environment_of(tmp_path, each).packages for each in (extra, base)]
        assert found == [folder.resolve() for folder in below]

    def test_two_layers_at_once(self, small: environments.Stack, tmp_path: Path) -> None:
        extra, mpich = environments.recipe(small, groups=["extra"]), environments.recipe(small, groups=["mpich"])
        installers = [Installer(environments.environment_of(tmp_path, each)) for each in (extra, mpich)]
        with environments.ready(tmp_path, extra, installers[0], print):
            with environments.ready(tmp_path, mpich, installers[1], print):
                pass
            assert (tmp_path / ".users" / f"stack-small.{os.getpid()}.lock").exists(), "still in use"
        assert list((tmp_path / ".users").iterdir()) == []

    def test_an_interrupted_making_leaves_no_stamp(self, small: environments.Stack, tmp_path: Path) -> None:
        recipe = environments.recipe(small)
        installer = Installer(environments.environment_of(tmp_path, recipe))
        installer.fail = True
        with pytest.raises(RuntimeError, match="no network"), environments.ready(tmp_path, recipe, installer, print):
            pass
        assert installer.environment.stamped() is None
        installer.fail = False
        with environments.ready(tmp_path, recipe, installer, print) as environment:
            assert environment.stamped() == recipe.stamp()

    def test_the_layer_sees_the_stack_by_a_relative_path(self, small: environments.Stack, tmp_path: Path) -> None:
        parent = tmp_path / "Umgebungen für alle"
        recipe = environments.recipe(small, groups=["extra"])
        installer = Installer(environments.environment_of(parent, recipe))
        with environments.ready(parent, recipe, installer, print) as layer:
            text = (layer.packages / environments.LAYER_PATH_FILE).read_text(encoding="ascii").strip()
        assert layer.below is not None
        assert (layer.packages / text).resolve() == layer.below.packages.resolve()

    def test_not_made_anew_under_another_session(self, small: environments.Stack, tmp_path: Path) -> None:
        recipe = environments.recipe(small)
        installer = Installer(environments.environment_of(tmp_path, recipe))
        with environments.ready(tmp_path, recipe, installer, print):
            pass
        lock = tmp_path / ".users" / f"{recipe.name}.424242.lock"
        holder = holder_of(lock)
        changed = environments.recipe(small, torch_index="https://example.org/cuda")
        try:
            with environments.ready(tmp_path, recipe, installer, print):
                pass  # Using it as it is disturbs nobody.
            with (
                pytest.raises(SetupError, match=r"stack-small must be made anew, but the session of process 424242"),
                environments.ready(tmp_path, changed, installer, print),
            ):
                pass
        finally:
            holder.communicate("\n", timeout=20)
        with environments.ready(tmp_path, changed, installer, print) as environment:
            assert environment.stamped() == changed.stamp()

    def test_a_second_session_waits_for_the_first(self, small: environments.Stack, tmp_path: Path) -> None:
        recipe = environments.recipe(small)
        lock = tmp_path / f"{recipe.name}.lock"
        holder = holder_of(lock)
        installer = Installer(environments.environment_of(tmp_path, recipe))
        said: list[str] = []

        def say(text: str) -> None:
            said.append(text)
            if text.startswith("waiting"):
                holder.communicate("\n", timeout=20)

        with environments.ready(tmp_path, recipe, installer, say):
            pass
        assert said[0] == "waiting for another session that makes stack-small"


class TestTorchIndex:
    def test_kept_until_another_is_named(self, small: environments.Stack, tmp_path: Path) -> None:
        recipe = environments.recipe(small, torch_index="https://example.org/cuda")
        installer = Installer(environments.environment_of(tmp_path, recipe))
        assert environments.torch_index_of(None, installer.environment) is None
        with environments.ready(tmp_path, recipe, installer, print) as environment:
            assert environments.torch_index_of(None, environment) == "https://example.org/cuda"
            assert environments.torch_index_of("https://example.org/cpu", environment) == "https://example.org/cpu"
            assert environments.torch_index_of("none", environment) is None


class TestLock:
    def test_of_a_resolve(self, small: environments.Stack) -> None:
        small.lock_file.write_text(
            'torch==2.12.0\ncolorama==0.4.6; sys_platform == "win32"\nold==1\n', encoding="utf-8"
        )
        chosen = [
            {"metadata": {"name": name, "version": version}}
            for name, version in (("Torch", "2.13.0+cpu"), ("a_b", "1"))
        ]
        stack = environments.read_stack(small.lock_file.parent, "small")
        lines = environments.lock_text(stack, {"install": chosen}).splitlines()
        assert lines[0].startswith("# Every version that small.toml brings.")
        assert lines[1:] == ["a-b==1", 'colorama==0.4.6; sys_platform == "win32"', "torch==2.13.0"]

    def test_self_contained_groups_are_not_resolved(self, small: environments.Stack) -> None:
        pins = environments.pins_to_lock(small)
        assert pins == ["deepspeed==0.19.8", "pytest==9.2.0", "rich==15.0.0", "torch==2.13.0"]


def locked(name: str) -> dict[str, str]:
    stack = environments.read_stack(STACKS, name)
    below = "" if stack.over is None else stack.over.lock
    lines = [*below.splitlines(), *stack.lock.splitlines()]  # What a stack locks itself comes last, and counts.
    requirements = [Requirement(line) for line in lines if not line.startswith("#")]
    assert all(str(requirement.specifier).startswith("==") for requirement in requirements)
    return {canonicalize_name(each.name): str(each.specifier).removeprefix("==") for each in requirements}


STACK_NAMES = sorted(path.stem for path in STACKS.glob("*.toml"))


@pytest.mark.parametrize("name", STACK_NAMES)
class TestStacksOfThisProject:
    def test_the_lock_holds_each_pin(self, name: str) -> None:
        pins = environments.pins_to_lock(environments.read_stack(STACKS, name))
        lock = locked(name)
        for pin in pins:
            package, _, version = pin.partition("==")
            assert lock.get(canonicalize_name(package)) == version, pin

    def test_the_lock_holds_all_that_the_pins_bring(self, name: str) -> None:
        """Walks the requirements of what is installed here; other platforms' requirements are not looked at."""
        lock = locked(name)
        waiting = [pin.partition("==")[0] for pin in environments.pins_to_lock(environments.read_stack(STACKS, name))]
        seen: set[str] = set()
        while waiting:
            package = canonicalize_name(waiting.pop())
            if package not in seen:
                seen.add(package)
                assert package in lock, f"{package} is brought, and not in the lock"
                with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                    waiting += requirements_of(package)
        assert {"sympy", "pluggy", "markdown-it-py"} <= seen

    def test_every_mpi_can_be_chosen(self, name: str) -> None:
        assert set(environments.MPI_GROUPS) <= set(environments.read_stack(STACKS, name).groups)


def test_the_project_declares_what_it_imports() -> None:
    """Each package that conformance/ or reports/ imports is declared and pinned, or comes with one that is."""
    stack = environments.read_stack(STACKS, "pinned")
    groups = [stack.groups[group] for group in ("lightning", *environments.ALL_INTEGRATION_GROUPS)]
    driven = with_requirements(name for group in groups for name in group)
    pinned, declared = with_requirements(stack.packages), with_requirements(declared_packages())
    for package in sorted(imported_packages("conformance", "reports")):
        assert package in pinned | driven, f"{package} is imported, and not among the pinned stack's packages"
        assert package in declared, f"{package} is imported, and not in pyproject.toml"


def test_each_integration_has_its_extra_and_its_group() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for name, entry in registry._OURS.items():
        assert environments.INTEGRATION_GROUPS.get(name) == entry.extra, name
        if entry.extra is None:
            assert not entry.libraries
            continue
        for stack in STACK_NAMES:
            assert set(environments.read_stack(STACKS, stack).groups[entry.extra]) == set(entry.libraries), stack
        assert {Requirement(text).name for text in extras[entry.extra]} == set(entry.libraries)


def test_the_tests_import_what_their_environment_has() -> None:
    stack = environments.read_stack(STACKS, "pinned")
    groups = ("develop", "docs", *environments.ALL_INTEGRATION_GROUPS)
    there = with_requirements([*stack.packages, *(name for group in groups for name in stack.groups[group])])
    assert imported_packages("tests") - with_requirements(there) == set()


def with_requirements(packages: Iterable[str]) -> set[str]:
    """The packages and, of those that are installed here, what they require themselves."""
    found: set[str] = {canonicalize_name(package) for package in packages}
    for package in list(found):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found |= set(requirements_of(package))
    return found


def requirements_of(package: str) -> list[str]:
    """What an installed package requires on this platform, without its extras."""
    requirements = map(Requirement, importlib.metadata.requires(package) or [])
    wanted = (each for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""}))
    return [canonicalize_name(each.name) for each in wanted]


def declared_packages() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    return {canonicalize_name(Requirement(text).name) for text in texts}


def imported_packages(*folders: str) -> set[str]:
    """The distributions whose modules are imported in `folders`, anywhere in a file."""
    names: set[str] = set()
    for path in (path for folder in folders for path in (ROOT / folder).glob("**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    distributions = importlib.metadata.packages_distributions()
    return {
        canonicalize_name(distributions[name][0]) for name in names - sys.stdlib_module_names if name in distributions
    }


def test_stamps_are_plain_json(small: environments.Stack) -> None:
    stamp = environments.recipe(small, groups=["mpich"]).stamp()
    assert json.loads(json.dumps(stamp)) == stamp
