"""How ranks find each other: what launchers set, what is missing or wrong, MPI, ports, timeouts, and starting again.

Where an mpi4py is needed that says what a case wants, a stand-in takes its place (stand_in_mpi.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import re
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from conformance.model.case import Step, case
from conformance.model.setting import Axes, Observation, Setting
from conformance.model.verdict import NotRun
from conformance.ranks.pool import ports
from conformance.suites.common import stand_in_mpi
from conformance.suites.common.circumstances import hostname_command, within, without_module
from conformance.suites.common.expecting import assert_raised, assert_refused, assert_works, proofs_in, raised_class
from conformance.suites.common.launching import launch
from conformance.suites.common.observing import attempt, prove, starter, tiny_config, tiny_model

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
REFERENCE = "conformance.reference.errors"
STORE_ERROR, NETWORK_ERROR = "torch.distributed.DistStoreError", "torch.distributed.DistNetworkError"
GAVE_UP = re.compile("[Tt]imed? ?out")
PORT_IN_USE = "EADDRINUSE" if sys.platform != "win32" else re.compile(r"system error: (10048|10013)\b")
"""What torch's store says of it. On Windows, where it is not libuv's, it gives the system's number: 10048, or 10013
where the other socket is bound for exclusive use."""

Refusal = tuple[str, str | re.Pattern[str]]
"""An error's class, and what its message says."""


def start(setting: Setting, *, seconds: float | None = None, port: int | None = None) -> Any:
    """An engine around the tiny model, started the way that axis `call` says.

    Args:
        seconds: how long ranks wait for each other; the default when None.
        port: that the bare call is told to use where it discovers MPI.
    """
    given: dict[str, Any] = {}
    if seconds is not None:
        patience = datetime.timedelta(seconds=seconds)
        if setting["call"] == "reference":
            given["timeout"] = patience
        else:
            import deepspeed

            deepspeed.init_distributed(dist_backend=setting.transport, timeout=patience)
    if port is not None and setting["call"] == "deepspeed":
        given["distributed_port"] = port
    return starter(setting)(model=tiny_model(), config=tiny_config(), **given)[0]


def own_folder(setting: Setting) -> Path:
    """A new folder for this rank alone."""
    folder = setting.folder / f"rank{setting.rank}"
    folder.mkdir()
    return folder


def await_file(path: Path) -> None:
    """Wait until another rank has made `path`."""
    limit = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < limit, f"no {path.name} after 30 s"
        time.sleep(0.005)


def forget_variables() -> int:
    """Unset the five variables; the port that was MASTER_PORT."""
    port = int(os.environ["MASTER_PORT"])
    for name in VARIABLES:
        del os.environ[name]
    return port


def variables() -> dict[str, str | None]:
    """The five variables as they are."""
    return {name: os.environ.get(name) for name in VARIABLES}


# A complete environment, and each of its variables missing in turn


def start_from_environment(setting: Setting) -> Observation:
    before = variables()
    with without_module("mpi4py"):
        proof = prove(start(setting), setting)
    return {"proof": proof, "before": before, "after": variables()}


@case("launch/complete_environment", start_from_environment)
def check_complete_environment(observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "proof"))
    for rank, seen in enumerate(observations):
        assert seen["after"] == seen["before"], f"rank {rank}: {seen['before']} became {seen['after']}"


@contextlib.contextmanager
def mpi_of(
    setting: Setting, rank: int, hosts: Sequence[str], *, name: str = "world", host_name: str | None = None
) -> Iterator[None]:
    """A stand-in MPI (see `stand_in_mpi.installed`), and a command `hostname` that knows an address."""
    with contextlib.ExitStack() as stack:
        if os.name == "posix":
            stack.enter_context(hostname_command(own_folder(setting), "address"))
        stack.enter_context(stand_in_mpi.installed(setting.folder, rank, hosts, name=name, host_name=host_name))
        yield


@contextlib.contextmanager
def mpi_is(setting: Setting, state: str) -> Iterator[None]:
    """mpi4py as `state` says: `absent`, `without_library`, `alone` (a world of this rank) or `world` (of all ranks)."""
    assert setting.rank is not None
    with contextlib.ExitStack() as stack:
        if state == "absent":
            stack.enter_context(without_module("mpi4py"))
        elif state == "without_library":
            os.environ["MPI4PY_LIBMPI"] = str(setting.folder / "no-such-libmpi.so")
        elif state == "alone":
            stack.enter_context(mpi_of(setting, 0, ["a"], name=f"alone{setting.rank}"))
        else:
            os.environ.update(PMI_RANK=str(setting.rank), PMI_SIZE=str(setting.world))
            stack.enter_context(mpi_of(setting, setting.rank, ["a"] * setting.world))
        yield


def start_without_variable(setting: Setting) -> Observation:
    shared, own = int(os.environ["MASTER_PORT"]), ports.reserve()
    # Ranks that each believe to be alone listen each on a port of their own, as they would on hosts of their own.
    port = own.number if setting["mpi"] == "alone" else shared
    del os.environ[str(setting["missing"])]
    with mpi_is(setting, str(setting["mpi"])):
        return {"started": attempt(lambda: prove(start(setting, port=port), setting)), "after": variables()}


@case("launch/variable_missing", start_without_variable)
def check_variable_missing(axes: Axes, observations: list[Observation]) -> None:
    if axes["mpi"] == "world":
        assert_works(proofs_in(observations, "started"))
        for rank, seen in enumerate(observations):
            expected = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
            found = {name: seen["after"][name] for name in expected}
            assert found == expected, f"rank {rank}: the variables are {found} afterwards, expected {expected}"
    elif axes["call"] == "reference":
        for rank, seen in enumerate(observations):
            says = re.compile(
                f"^{axes['missing']}: found nothing, while .* and no mpiexec started this process; .*Remedy: "
            )
            assert_raised(seen["started"], f"{REFERENCE}.TopologyError", says, f"rank {rank}")
    elif axes["mpi"] == "absent":
        assert_refused(observations, "started", "ModuleNotFoundError", "mpi4py")
    elif axes["mpi"] == "without_library":
        assert_refused(observations, "started", "RuntimeError", "cannot load MPI library")
    else:  # nothing but a training of both ranks together, or a refusal, would do
        for rank, seen in enumerate(observations):
            proof = seen["started"].get("returned")
            assert proof is None or proof["world"] == 2, (
                f"rank {rank} of 2 trains alone, in a world of {proof['world']}, and nothing says so"
            )


def start_from_nothing(setting: Setting) -> Observation:
    port = forget_variables()
    with mpi_is(setting, str(setting["mpi"])):
        return {"started": attempt(lambda: prove(start(setting, port=port), setting))}


@case("launch/nothing_set", start_from_nothing)
def check_nothing_set(axes: Axes, observations: list[Observation]) -> None:
    if axes["call"] == "deepspeed" and axes["mpi"] == "absent":
        assert_refused(observations, "started", "ModuleNotFoundError", "mpi4py")
    elif axes["call"] == "deepspeed" and axes["mpi"] == "without_library":
        assert_refused(observations, "started", "RuntimeError", "cannot load MPI library")
    else:
        assert_works(proofs_in(observations, "started"))


def start_as_one_task(setting: Setting) -> Observation:
    os.environ.update(PMI_RANK="0", PMI_SIZE="1")
    return start_from_nothing(setting)


@case("launch/one_task", start_as_one_task)
def check_one_task(observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "started"))


# Ranks that mpiexec started

HOSTS = {"one": ["a", "a"], "two": ["a", "b"], "two_of_one_name": ["a", "b"]}


def discover_ranks(setting: Setting) -> Observation:
    assert setting.rank is not None
    hosts = HOSTS[setting["hosts"]]
    port = forget_variables()
    if setting["call"] == "deepspeed":  # which overwrites what is there; the reference would meet at this place
        os.environ.update(MASTER_ADDR="no-such-host.invalid", MASTER_PORT="1")
    else:
        os.environ.update(MASTER_ADDR="127.0.0.1")
    os.environ.update(PMI_RANK=str(setting.rank), PMI_SIZE="2")
    name = "a" if setting["hosts"] == "two_of_one_name" else None
    with mpi_of(setting, setting.rank, hosts, host_name=name):
        proof = prove(start(setting, port=port), setting)
    return {"proof": proof, "after": variables(), "port": port}


@case("launch/mpi_discovery", discover_ranks)
def check_mpi_discovery(axes: Axes, observations: list[Observation]) -> None:
    local_ranks = [0, 1] if axes["hosts"] == "one" else [0, 0]
    assert_works(proofs_in(observations, "proof"), local_ranks=local_ranks)
    for rank, seen in enumerate(observations):
        expected = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(local_ranks[rank])}
        if axes["call"] == "deepspeed":
            expected["MASTER_PORT"] = str(seen["port"])
        found = {name: seen["after"][name] for name in expected}
        assert found == expected, f"rank {rank}: the variables are {found} afterwards, expected {expected}"


def discover_with_hostname(setting: Setting) -> Observation:
    assert setting.rank is not None
    port, hosts = forget_variables(), ["a"] * setting.world
    try:
        address: str | None = socket.gethostbyname(socket.gethostname())
    except OSError:
        address = None
    with (
        stand_in_mpi.installed(setting.folder, setting.rank, hosts),
        hostname_command(own_folder(setting), str(setting["answer"])),
    ):
        started = attempt(lambda: prove(start(setting, port=port), setting))
    return {"started": started, "address": address, "used": os.environ.get("MASTER_ADDR")}


@case("launch/hostname_command", discover_with_hostname)
def check_hostname_command(axes: Axes, observations: list[Observation]) -> None:
    if observations[0]["address"] is None:
        raise NotRun("a host that knows the address of its own name", "add the name to /etc/hosts")
    assert_works(proofs_in(observations, "started"))
    expected = "127.0.0.1" if axes["answer"] == "address" else observations[0]["address"]
    for rank, seen in enumerate(observations):
        assert seen["used"] == expected, f"rank {rank}: MASTER_ADDR is {seen['used']!r}, expected {expected!r}"


def start_under_another_mpi(setting: Setting) -> Observation:
    """mpiexec started two ranks, and mpi4py is bound to an MPI that knows nothing of it."""
    assert setting.rank is not None
    forget_variables()
    os.environ.update(PMI_RANK=str(setting.rank), PMI_SIZE=str(setting.world))
    own = ports.reserve()
    with mpi_of(setting, 0, ["a"], name=f"alone{setting.rank}"):
        return {"started": attempt(lambda: prove(start(setting, port=own.number), setting))}


@case("launch/another_mpi", start_under_another_mpi)
def check_another_mpi(axes: Axes, observations: list[Observation]) -> None:
    if axes["call"] == "reference":
        says = f"PMI_SIZE: found 2, while the MPI that mpi4py loaded ({stand_in_mpi.LIBRARY}) has a world of 1"
        assert_refused(observations, "started", f"{REFERENCE}.MpiError", says)
        return
    for rank, seen in enumerate(observations):
        proof = seen["started"].get("returned")
        assert proof is None or proof["world"] == 2, (
            f"rank {rank} of 2 trains alone, in a world of {proof['world']}, and nothing says so"
        )


def start_two_jobs(setting: Setting) -> Observation:
    """Each rank is a job of its own. The second starts once the first is up, which stays until the second has ended."""
    assert setting.rank is not None
    shared, own = forget_variables(), ports.reserve()
    os.environ.update(PMI_RANK="0", PMI_SIZE="1")
    port = shared if setting["ports"] == "one" else own.number
    job = dataclasses.replace(setting, world=1, rank=0)
    first_is_up, second_ended = setting.folder / "first_is_up", setting.folder / "second_ended"
    if setting.rank == 1:
        await_file(first_is_up)
    with mpi_of(setting, 0, ["a"], name=f"job{setting.rank}"):
        started = attempt(lambda: prove(start(setting, port=port), job))
    if setting.rank == 0:
        first_is_up.touch()
        await_file(second_ended)
    else:
        second_ended.touch()
    return {"started": started}


@case("launch/two_jobs", start_two_jobs)
def check_two_jobs(axes: Axes, observations: list[Observation]) -> None:
    first, second = observations
    proofs = proofs_in([first], "started")
    assert_works(proofs)
    if axes["ports"] == "one" and axes["call"] == "deepspeed":
        assert_raised(second["started"], NETWORK_ERROR, PORT_IN_USE, "the second job")
    else:
        assert_works(proofs_in([second], "started"))


AZURE = {
    "AZUREML_EXPERIMENT_ID": "experiment",
    "AZ_BATCH_MASTER_NODE": "127.0.0.1:6105",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
}


def start_in_cloud(setting: Setting) -> Observation:
    """Open MPI ranks of a cloud, one on each host; the harness's port stands for the one that the cloud would set."""
    address = os.environ["MASTER_ADDR"]
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"):
        del os.environ[name]
    os.environ.update(
        OMPI_COMM_WORLD_RANK=str(setting.rank),
        OMPI_COMM_WORLD_SIZE=str(setting.world),
        OMPI_COMM_WORLD_LOCAL_RANK="0",
    )
    if str(setting["cloud"]).startswith("azure"):
        os.environ.update(AZURE)
        if setting["cloud"] == "azure_with_interface":
            os.environ["NCCL_SOCKET_IFNAME"] = "eth0"
    else:
        os.environ.update(SM_TRAINING_ENV="{}", MASTER_ADDR=address)
    with without_module("mpi4py"):
        return {"started": attempt(lambda: prove(start(setting), setting)), "after": variables()}


@case("launch/cloud", start_in_cloud)
def check_cloud(observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "started"), local_ranks=[0] * len(observations))
    for rank, seen in enumerate(observations):
        expected = {"RANK": str(rank), "WORLD_SIZE": str(len(observations)), "LOCAL_RANK": "0"}
        found = {name: seen["after"][name] for name in expected}
        assert found == expected, f"rank {rank}: the variables are {found} afterwards, expected {expected}"


def start_under_mpiexec(setting: Setting) -> Observation:
    from mpi4py import MPI

    before = variables()
    proof = prove(start(setting), setting)
    world = MPI.COMM_WORLD
    return {"proof": proof, "before": before, "after": variables(), "mpi": [world.Get_rank(), world.Get_size()]}


@case("launch/mpiexec", start_under_mpiexec)
def check_mpiexec(axes: Axes, observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "proof"))
    for rank, seen in enumerate(observations):
        assert seen["mpi"] == [rank, axes["world"]], f"rank {rank}: MPI says rank and size {seen['mpi']}"
        assert not any(seen["before"].values()), f"rank {rank}: the launcher had set {seen['before']}"
        missing = [name for name, value in seen["after"].items() if value is None]
        assert not missing, f"rank {rank}: {', '.join(missing)} not set afterwards"


# Variables that are there and wrong

WRONG: dict[str, list[dict[str, str]]] = {
    "rank_text": [{"RANK": "first"}, {"RANK": "second"}],
    "rank_negative": [{}, {"RANK": "-1"}],
    "rank_too_large": [{}, {"RANK": "2"}],
    "rank_twice": [{}, {"RANK": "0"}],
    "no_rank_0": [{"RANK": "1"}, {}],
    "world_text": [{"WORLD_SIZE": "two"}, {"WORLD_SIZE": "two"}],
    "world_zero": [{"WORLD_SIZE": "0"}, {"WORLD_SIZE": "0"}],
    "world_too_small": [{}, {"WORLD_SIZE": "1"}],
    "address_empty": [{"MASTER_ADDR": ""}, {"MASTER_ADDR": ""}],
    "address_unknown": [{"MASTER_ADDR": "no-such-host.invalid"}] * 2,
    "port_text": [{"MASTER_PORT": "http"}, {"MASTER_PORT": "http"}],
    "port_too_large": [{"MASTER_PORT": "70000"}, {"MASTER_PORT": "70000"}],
}
"""By case, what each of two ranks finds in place of what the launcher set."""


def start_from_wrong_variables(setting: Setting) -> Observation:
    assert setting.rank is not None
    os.environ.update(WRONG[setting["wrong"]][setting.rank])
    begin = time.monotonic()
    started = within(14, lambda: attempt(lambda: prove(start(setting, seconds=2), setting)))
    return {"started": started, "seconds": time.monotonic() - begin}


@case("launch/variables_wrong", start_from_wrong_variables)
def check_variables_wrong(axes: Axes, observations: list[Observation]) -> None:
    wrong = str(axes["wrong"])
    waited: Refusal = (STORE_ERROR, GAVE_UP)
    not_reached: Refusal = (NETWORK_ERROR, GAVE_UP)
    bare: dict[str, list[Refusal]] = {
        "rank_text": [("ValueError", "invalid literal for int() with base 10: 'first'"), ("ValueError", "'second'")],
        "rank_negative": [waited, ("RuntimeError", "rank >= 0. -1 vs 0")],
        "rank_too_large": [waited, ("RuntimeError", "rank < size. 2 vs 2")],
        "rank_twice": [waited, (NETWORK_ERROR, PORT_IN_USE)],
        "no_rank_0": [not_reached, not_reached],
        "world_text": [("ValueError", "invalid literal for int() with base 10: 'two'")] * 2,
        "world_zero": [("ValueError", "TCPStore world size cannot be 0")] * 2,
        "world_too_small": [waited, ("RuntimeError", "rank < size. 1 vs 1")],
        "address_empty": [("ValueError", "environment variable MASTER_ADDR expected, but not set")] * 2,
        "address_unknown": [(NETWORK_ERROR, "no-such-host.invalid")] * 2,
        "port_text": [("ValueError", "invalid literal for int() with base 10: 'http'")] * 2,
        "port_too_large": [("ValueError", "port must have value from 0 to 65535 but was 70000")] * 2,
    }
    topology, transport = f"{REFERENCE}.TopologyError", f"{REFERENCE}.TransportError"
    left_waiting: Refusal = (transport, "MASTER_ADDR, MASTER_PORT: found ")
    reference: dict[str, list[Refusal]] = {
        "rank_text": [
            (topology, "RANK: found 'first'; expected an integer of at least 0"),
            (topology, "RANK: found 'second'"),
        ],
        "rank_negative": [left_waiting, (topology, "RANK: found '-1'; expected an integer of at least 0")],
        "rank_too_large": [left_waiting, (topology, "RANK: found 2; expected 0 to 1, as WORLD_SIZE is 2")],
        "rank_twice": [(transport, re.compile("where rank 0 cannot listen|where rank 0 of 2 could not join"))] * 2,
        "no_rank_0": [left_waiting, left_waiting],
        "world_text": [(topology, "WORLD_SIZE: found 'two'; expected an integer of at least 1")] * 2,
        "world_zero": [(topology, "WORLD_SIZE: found '0'; expected an integer of at least 1")] * 2,
        "world_too_small": [left_waiting, (topology, "expected 0 to 0, as WORLD_SIZE is 1")],
        "address_empty": [(topology, "MASTER_ADDR: found ''; expected the name or address of rank 0's host")] * 2,
        "address_unknown": [(transport, "MASTER_ADDR, MASTER_PORT: found no-such-host.invalid:")] * 2,
        "port_text": [(topology, "MASTER_PORT: found 'http'; expected an integer of at least 1")] * 2,
        "port_too_large": [(topology, "MASTER_PORT: found 70000; expected a port, 1 to 65535")] * 2,
    }
    expected = (reference if axes["call"] == "reference" else bare)[wrong]
    for rank, seen in enumerate(observations):
        # Two ranks 0: either may be the one that comes second, or even after the first has given up.
        possible = expected if wrong == "rank_twice" else [expected[rank]]
        error, says = next((one for one in possible if one[0] == raised_class(seen["started"])), possible[0])
        assert_raised(seen["started"], error, says, f"rank {rank}")
        assert seen["seconds"] < 13, f"rank {rank}: took {seen['seconds']:.1f} s to refuse, with a timeout of 2 s"


def start_with_wrong_local_rank(setting: Setting) -> Observation:
    os.environ["LOCAL_RANK"] = {"negative": "-1", "text": "first", "too_large": "7"}[str(setting["value"])]
    return {"started": attempt(lambda: prove(start(setting), setting))}


@case("launch/local_rank_wrong", start_with_wrong_local_rank)
def check_local_rank_wrong(axes: Axes, observations: list[Observation]) -> None:
    if axes["call"] == "reference":
        says = {
            "negative": "LOCAL_RANK: found '-1'; expected an integer of at least 0",
            "text": "LOCAL_RANK: found 'first'; expected an integer of at least 0",
            "too_large": f"LOCAL_RANK: found 7; expected 0 to {int(axes['world']) - 1}",
        }[str(axes["value"])]
        assert_refused(observations, "started", f"{REFERENCE}.TopologyError", says)
    elif axes["value"] == "text":
        assert_refused(observations, "started", "ValueError", "invalid literal for int() with base 10: 'first'")
    elif axes["value"] == "too_large":  # on a CPU no device is looked for
        assert_works(proofs_in(observations, "started"), local_ranks=[7] * len(observations))
    else:  # training right, or a refusal, would do
        for rank, seen in enumerate(observations):
            proof = seen["started"].get("returned")
            assert proof is None or (proof["engine_rank"], proof["engine_world"]) == (rank, axes["world"]), (
                f"rank {rank} of {axes['world']}: the engine takes itself for rank {proof['engine_rank']} of "
                f"{proof['engine_world']}, and nothing says so"
            )


def start_on_taken_port(setting: Setting) -> Observation:
    """Another program listens on MASTER_PORT, and says nothing to those who connect; it ends after eight seconds."""
    assert setting.rank is not None
    told, ended = setting.folder / "port", setting.folder / "ended"
    with contextlib.ExitStack() as stack:
        if setting.rank == 0:
            listener = stack.enter_context(socket.create_server(("", 0)))
            part = told.with_suffix(".part")
            part.write_text(str(listener.getsockname()[1]), encoding="utf-8")
            part.rename(told)
        await_file(told)
        os.environ["MASTER_PORT"] = told.read_text(encoding="utf-8")
        begin = time.monotonic()
        started = attempt(lambda: prove(start(setting, seconds=1), setting))
        seconds = time.monotonic() - begin
        if setting.rank == 1:
            ended.touch()
        elif setting.world == 2:
            limit = begin + 8
            while time.monotonic() < limit and not ended.exists():
                time.sleep(0.01)
    return {"started": started, "seconds": seconds}


@case("launch/port_taken", start_on_taken_port)
def check_port_taken(axes: Axes, observations: list[Observation]) -> None:
    first = observations[0]
    if axes["call"] == "reference":
        error = f"{REFERENCE}.TransportError"
        assert_raised(first["started"], error, "where rank 0 cannot listen", "rank 0")
    else:
        error = NETWORK_ERROR
        assert_raised(first["started"], error, PORT_IN_USE, "rank 0")
    for rank, seen in enumerate(observations[1:], start=1):
        assert seen["seconds"] < 6, f"rank {rank} waited {seen['seconds']:.1f} s, with a timeout of 1 s"
        assert_raised(seen["started"], error, re.compile(""), f"rank {rank}")


# Timeouts


def wait_for_absent_rank(setting: Setting) -> Observation:
    begin = time.monotonic()
    if setting.rank == setting["absent"]:
        return {"started": None, "seconds": 0.0}
    started = attempt(lambda: prove(start(setting, seconds=1), setting))
    return {"started": started, "seconds": time.monotonic() - begin}


@case("launch/rank_absent", wait_for_absent_rank)
def check_rank_absent(axes: Axes, observations: list[Observation]) -> None:
    waiting = 1 - int(axes["absent"])
    seen = observations[waiting]
    if axes["call"] == "reference":
        says: str | re.Pattern[str] = "where rank"
        assert_raised(seen["started"], f"{REFERENCE}.TransportError", says, f"rank {waiting}")
    else:
        assert_raised(seen["started"], STORE_ERROR if waiting == 0 else NETWORK_ERROR, GAVE_UP, f"rank {waiting}")
    assert 0.5 < seen["seconds"] < 15, f"rank {waiting} waited {seen['seconds']:.1f} s, with a timeout of 1 s"


def wait_in_collective(setting: Setting) -> Observation:
    import torch

    proof = prove(start(setting, seconds=5), setting)
    gave_up = setting.folder / "gave_up"
    if setting.rank == 1:
        await_file(gave_up)
        return {"proof": proof}
    begin = time.monotonic()
    reduced = attempt(lambda: torch.distributed.all_reduce(torch.ones(1)))
    seconds = time.monotonic() - begin
    gave_up.touch()
    return {"proof": proof, "reduced": reduced, "seconds": seconds}


@case("launch/collective_timeout", wait_in_collective)
def check_collective_timeout(observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "proof"))
    waiting = observations[0]
    assert_raised(waiting["reduced"], "RuntimeError", GAVE_UP, "rank 0")
    assert 4 < waiting["seconds"] < 12, f"rank 0 waited {waiting['seconds']:.1f} s, with a timeout of 5 s"


def read_timeout(setting: Setting) -> Observation:
    def timeout() -> float:
        import deepspeed
        import torch

        deepspeed.init_distributed(dist_backend=setting.transport)
        group = torch.distributed.group.WORLD._get_backend(torch.device(setting.device))  # type: ignore[union-attr]
        return float(group.options._timeout.total_seconds())

    return {"seconds": attempt(timeout)}


def read_timeout_of_environment(axes: Axes) -> list[Step]:
    return [Step(read_timeout, environment={"DEEPSPEED_TIMEOUT": str(axes["minutes"])}, cold=True)]


@case("launch/timeout_by_environment", plan=read_timeout_of_environment)
def check_timeout_by_environment(axes: Axes, observations: list[Observation]) -> None:
    if axes["minutes"] == "half":
        assert_refused(observations, "seconds", "ValueError", "invalid literal for int() with base 10: 'half'")
        return
    for rank, seen in enumerate(observations):
        expected = 60.0 * int(axes["minutes"])
        assert seen["seconds"].get("returned") == expected, f"rank {rank}: {seen['seconds']}, expected {expected} s"


def choose_accelerator(setting: Setting) -> Observation:
    def chosen() -> dict[str, Any]:
        from deepspeed.accelerator import get_accelerator

        accelerator = get_accelerator()
        return {
            "device": accelerator.device_name(),
            "backend": accelerator.communication_backend_name(),
            "proof": prove(start(setting), setting),
        }

    return {"chosen": attempt(chosen)}


def choose_accelerator_by_environment(axes: Axes) -> list[Step]:
    return [
        Step(
            choose_accelerator,
            parameters={"call": "deepspeed"},
            environment={"DS_ACCELERATOR": str(axes["name"])},
            cold=True,
        )
    ]


@case("launch/accelerator_by_environment", plan=choose_accelerator_by_environment)
def check_accelerator_by_environment(axes: Axes, observations: list[Observation]) -> None:
    if axes["name"] != "cpu":
        assert_refused(observations, "chosen", "ValueError", "DS_ACCELERATOR must be one of")
        return
    chosen = proofs_in(observations, "chosen")
    for rank, seen in enumerate(chosen):
        found = (seen["device"], seen["backend"])
        assert found == ("cpu", "gloo"), f"rank {rank}: device and backend are {found}, expected cpu and gloo"
    assert_works([seen["proof"] for seen in chosen])


# Starting again in one process


def start_end_and_start(setting: Setting) -> Observation:
    """Start three times; from the second time on, one rank comes half a second after the other."""
    import deepspeed
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    store = None
    if setting["store"] == "agent":  # as under torchrun, where it outlives each start
        port = int(os.environ["MASTER_PORT"])
        if setting.rank == 0:
            store = TCPStore("127.0.0.1", port, None, True, wait_for_workers=False)
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"

    def once() -> Observation:
        if setting["call"] == "reference":
            from conformance.reference import initialize

            with initialize(tiny_model(), tiny_config(), timeout=datetime.timedelta(seconds=10)) as training:
                return prove(training.engine, setting)
        engine = start(setting, seconds=2)
        proof = prove(engine, setting)
        engine.destroy()
        deepspeed.comm.destroy_process_group()
        return proof

    starts = []
    for number in range(3):
        if number and setting.rank == setting["late"]:
            time.sleep(0.5)
        starts.append(within(8, lambda: attempt(once)))
        if "raised" in starts[-1]:
            break
    ended = setting.folder / f"ended{setting.rank}"
    ended.touch()
    for rank in range(setting.world):
        await_file(setting.folder / f"ended{rank}")
    del store
    return {f"start_{number}": started for number, started in enumerate(starts, start=1)}


@case("launch/restart", start_end_and_start)
def check_restart(observations: list[Observation]) -> None:
    for number in (1, 2, 3):
        key = f"start_{number}"
        assert_works(proofs_in([seen for seen in observations if key in seen], key))
    for rank, seen in enumerate(observations):
        digests = {seen[f"start_{number}"]["returned"]["digest"] for number in (1, 2, 3)}
        assert len(digests) == 1, f"rank {rank}: the starts gave different weights"


def end_with_torch(setting: Setting) -> Observation:
    import torch

    first = prove(start(setting), setting)
    torch.distributed.destroy_process_group()
    return {"first": first, "second": attempt(lambda: prove(start(setting), setting))}


@case("launch/restart_after_torch", end_with_torch)
def check_restart_after_torch(observations: list[Observation]) -> None:
    assert_works(proofs_in(observations, "first"))
    assert_works(proofs_in(observations, "second"))


# Launchers that are programs of their own


def start_by_launcher(setting: Setting) -> Observation:
    port = os.environ["MASTER_PORT"]
    torchrun = ["-m", "torch.distributed.run", "--max-restarts", "0"]
    here = ["--master-addr", "127.0.0.1", "--master-port", port]
    commands = {
        "torchrun": [[*torchrun, "--nproc-per-node", "2", *here, "-m"]],
        "torchrun_two_nodes": [
            [*torchrun, "--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(node), *here, "-m"]
            for node in (0, 1)
        ],
        "deepspeed": [["-m", "deepspeed.launcher.runner", "--num_gpus", "2", "--master_port", port, "--module"]],
        "deepspeed_without_local_rank": [
            ["-m", "deepspeed.launcher.runner", "--num_gpus", "2", "--master_port", port, "--no_local_rank", "--module"]
        ],
    }[str(setting["launcher"])]
    return launch(setting, commands, world=2, seconds=setting["seconds"])


def launch_two_ranks(_axes: Axes) -> list[Step]:
    return [Step(start_by_launcher, world=1, launches=2, parameters={"seconds": 240})]


@case("launch/launcher", plan=launch_two_ranks)
def check_launcher(axes: Axes, observations: list[Observation]) -> None:
    seen = observations[0]
    lost = [rank for rank, observation in enumerate(seen["ranks"]) if observation is None]
    assert not lost, f"rank {lost} left no observation; exit codes {seen['exits']}; output ends:\n{seen['output']}"
    local_ranks = [0, 0] if axes["launcher"] == "torchrun_two_nodes" else [0, 1]
    assert_works([observation["proof"] for observation in seen["ranks"]], local_ranks=local_ranks)
    for rank, observation in enumerate(seen["ranks"]):
        missing = [name for name, value in observation["told"].items() if value is None]
        assert not missing, f"rank {rank}: the launcher did not set {', '.join(missing)}"
        expected = [f"--local_rank={rank}"] if axes["launcher"] == "deepspeed" else []
        found = observation["arguments"]
        assert found == expected, f"rank {rank}: the launcher added the arguments {found}, expected {expected}"
    assert seen["exits"] == [0] * len(seen["exits"]), f"the launchers' exit codes are {seen['exits']}, expected 0"
