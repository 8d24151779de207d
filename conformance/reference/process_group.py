"""Starting torch.distributed through DeepSpeed, and ending it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
from collections.abc import Iterator

from conformance.reference import mpi_abort, rendezvous
from conformance.reference.errors import StartError, TopologyError, TransportError
from conformance.reference.topology import Topology, adopt_topology, find_topology
from conformance.reference.transport import Ground, choose_transport, make_ready


@dataclasses.dataclass(frozen=True)
class Connection:
    """A running torch.distributed, and the claim of one user to it.

    Attributes:
        topology: this process's place, with the port at which the ranks met.
        transport: `gloo`, `nccl` or `mpi`; for an adopted process group, what torch calls its backend.
        started: whether the call that returned this started it; False where one was already up.
    """

    topology: Topology
    transport: str
    started: bool


@dataclasses.dataclass(frozen=True)
class _Running:
    connection: Connection
    environment: dict[str, str | None]
    """The variables that start() wrote, as they were before; None where they were unset."""
    world: object
    """torch's default process group: whether it still is tells whether somebody else ended it."""
    users: list[Connection]
    """What start() returned and nobody gave back yet: it goes on until the last of them leaves, or `shutdown`."""


_running: list[_Running] = []
"""The connection that start() made or adopted, if any; a list, so that it can be emptied in place."""


def start(
    *, topology: Topology | None = None, transport: str = "auto", timeout: datetime.timedelta | None = None
) -> Connection:
    """Start torch.distributed through DeepSpeed, or adopt the one that is up.

    `initialize` calls it. Call it yourself to have ranks before there is a model, as `deepspeed.zero.Init` and
    PipelineModule need them. Every rank must call it.

    It writes RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT to os.environ, where DeepSpeed reads them for as
    long as it runs; `shutdown` puts back what was there. Where the ranks are MPI's, an exception that nobody catches
    ends the whole job (MPI_Abort) until then, as the other ranks would wait for ever.

    Args:
        topology: this process's place; found by `find_topology` by default.
        transport: `auto`, `gloo`, `nccl` or `mpi`; see `choose_transport`.
        timeout: how long a rank waits for the others, at the start and in each collective; DeepSpeed's default is ten
            minutes, or DEEPSPEED_TIMEOUT, in whole minutes.

    Raises:
        TopologyError: see `find_topology`; or there is no device for this local rank; or torch.distributed is already
            up with other ranks.
        MpiError: MPI is needed and cannot be used.
        TransportError: the transport cannot be had here, is not what is already up, or the ranks did not meet.
    """
    import torch.distributed

    if _running and not _is_up(_running[0]):
        shutdown()  # somebody else ended the process group; what start() wrote is still there
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return _adopt(topology, transport)
    _forget_groups()
    chosen = choose_transport(transport, Ground.here())
    topology = find_topology() if topology is None else topology
    mpi_abort.install()  # from here on a rank that fails may leave the others waiting
    _use_device(topology)
    backend = make_ready(chosen, topology)
    timeout = _default_timeout() if timeout is None else timeout
    topology = dataclasses.replace(topology, master_port=rendezvous.meet(topology, timeout))
    before = _export(topology)
    try:
        _connect(topology, backend, timeout)
    except BaseException:
        _disconnect()
        _restore(before)
        raise
    mpi_abort.install()
    connection = Connection(topology, chosen, started=True)
    _running[:] = [_Running(connection, before, torch.distributed.group.WORLD, [connection])]
    return connection


def shutdown() -> None:
    """End what `start` or `initialize` started, so that the process can end, or start again.

    Destroys the process group, whoever still uses it, unless `start` found it up and only adopted it; puts back the
    five environment variables and sys.excepthook. Engines must have been destroyed before: leave `with initialize(…)`,
    or call their `destroy`. Does nothing when nothing is running.
    """
    while _running:
        running = _running.pop()
        if running.connection.started and _is_up(running):
            _disconnect()
        _restore(running.environment)
    mpi_abort.restore()


def release(connection: Connection, *, end: bool = True) -> None:
    """Give back what `start` returned; the last user to do so ends what was started, as `shutdown` does.

    Args:
        connection: the very object that `start` returned; one that was given back before is of no effect.
        end: False leaves it up, for the next user or `shutdown`.
    """
    for running in _running:
        left = [user for user in running.users if user is not connection]
        last = running.users and not left
        running.users[:] = left
        if last and end:
            shutdown()


def _is_up(running: _Running) -> bool:
    import torch.distributed

    return torch.distributed.is_initialized() and torch.distributed.group.WORLD is running.world


def _disconnect() -> None:
    import deepspeed.comm
    import torch.distributed

    if deepspeed.comm.is_initialized():
        # Through DeepSpeed, which then also lets go of the groups that it keeps in globals.
        deepspeed.comm.destroy_process_group()
    elif torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _forget_groups() -> None:
    """Let DeepSpeed forget groups of a torch.distributed that is no longer up.

    It keeps them in globals, and lets go of them in its own `destroy_process_group` only. After torch's function of
    that name a new engine would use them, and fail with "Group … is not registered".
    """
    from deepspeed.comm import comm
    from deepspeed.utils import groups

    if comm.cdb is None:
        return  # it has never been up in this process
    release = getattr(groups, "_release_process_group_references", None)  # older versions have nothing like it
    if release is not None:
        release(group=None)


def _export(topology: Topology) -> dict[str, str | None]:
    """Write the topology to os.environ; what was there before."""
    values = topology.environment()
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    return before


def _restore(environment: dict[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _connect(topology: Topology, backend: str, timeout: datetime.timedelta) -> None:
    import deepspeed

    try:
        with _without_compiling():
            # Without MPI discovery: the environment is complete, and what would overwrite it was refused or done.
            deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, timeout=timeout, verbose=False)
    except StartError:
        raise  # the MPI transport's own
    except (RuntimeError, OSError) as error:
        raise TransportError(
            "MASTER_ADDR, MASTER_PORT",
            f"{topology.master_addr}:{topology.master_port}, where rank {topology.rank} of {topology.world_size} could "
            f"not join the others by {backend} ({str(error).strip().partition(chr(10))[0]})",
            "every rank to arrive there in time",
            "look for a rank that failed earlier; check that the address is rank 0's and reachable from this host",
        ) from error
    _verify(topology, backend)


@contextlib.contextmanager
def _without_compiling() -> Iterator[None]:
    """Let DeepSpeed connect without its shared-memory collective.

    On a Linux CPU it compiles that op while it connects: a minute at first, forever behind the lock of a build that was
    killed, an error without ninja and a C++ compiler. Only inference uses it. Who wants it calls
    `deepspeed.init_distributed` before, and that is then adopted.
    """
    import deepspeed.ops

    compatible = deepspeed.ops.__compatible_ops__
    name = "deepspeed_shm_comm"
    before = compatible.get(name)
    if not before:
        yield
        return
    compatible[name] = False
    try:
        yield
    finally:
        compatible[name] = before


def _verify(topology: Topology, backend: str) -> None:
    """Check that torch.distributed is what was planned: DeepSpeed may have had ideas of its own."""
    import torch.distributed

    if not torch.distributed.is_initialized() or torch.distributed.get_backend() != backend:
        up = torch.distributed.get_backend() if torch.distributed.is_initialized() else "nothing of torch's"
        raise TransportError(
            "torch.distributed.get_backend()",
            up,
            backend,
            "uninstall oneCCL's bindings where DeepSpeed prefers them; else report this with both versions",
        )
    _compare(topology)


def _compare(topology: Topology) -> None:
    import torch.distributed

    rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    if (rank, world_size) != (topology.rank, topology.world_size):
        raise TopologyError(
            "torch.distributed",
            f"rank {rank} of {world_size}",
            f"rank {topology.rank} of {topology.world_size}, as launcher `{topology.launcher}` said",
            "let one of them decide: do not start torch.distributed before, or do not pass a topology",
        )


def _adopt(topology: Topology | None, transport: str) -> Connection:
    """Take the process group that is up, if it is what is asked for."""
    import torch.distributed

    if _running:
        known = dataclasses.replace(_running[0].connection, started=False)
    else:
        place = topology or adopt_topology(torch.distributed.get_rank(), torch.distributed.get_world_size())
        known = Connection(place, torch.distributed.get_backend(), started=False)
    if topology is not None:
        _compare(topology)
        if topology.local_rank != known.topology.local_rank:
            raise TopologyError(
                "topology.local_rank",
                str(topology.local_rank),
                f"{known.topology.local_rank}, with which this process was started",
                "pass the same topology, or none",
            )
    if transport not in ("auto", known.transport):
        raise TransportError(
            "transport",
            f"{transport!r}, while torch.distributed is already up with {known.transport}",
            f"'auto' or {known.transport!r}",
            "start torch.distributed with the transport that you want, or leave it to this call",
        )
    _use_device(known.topology)
    _adopt_in_deepspeed(known.transport)
    mpi_abort.install()
    if not _running:
        _running[:] = [_Running(known, _export(known.topology), torch.distributed.group.WORLD, [])]
    _running[0].users.append(known)
    return known


def _adopt_in_deepspeed(backend: str) -> None:
    """Have DeepSpeed take the process group that is up here, and not in `deepspeed.initialize`, where it compiles."""
    import deepspeed

    if not deepspeed.comm.is_initialized():
        with _without_compiling():
            deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, verbose=False)


def _use_device(topology: Topology) -> None:
    """Make the local rank's device the current one, before anything creates a context on the first."""
    from deepspeed.accelerator import get_accelerator

    accelerator = get_accelerator()
    if accelerator.device_name() == "cpu":
        return
    count = accelerator.device_count()
    if topology.local_rank >= count:
        raise TopologyError(
            "LOCAL_RANK",
            f"{topology.local_rank}, on a host that shows this process {count} {accelerator.device_name()} device(s)",
            f"0 to {count - 1}: DeepSpeed gives local rank N the device N",
            "start at most one rank a device, and let every rank see all devices (CUDA_VISIBLE_DEVICES); where each "
            "rank is shown its own device only, set LOCAL_RANK=0 in all",
        )
    accelerator.set_device(topology.local_rank)


def _default_timeout() -> datetime.timedelta:
    from deepspeed.constants import default_pg_timeout

    timeout: datetime.timedelta = default_pg_timeout
    return timeout
