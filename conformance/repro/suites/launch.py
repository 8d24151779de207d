"""The cells of suite launch in short."""

from __future__ import annotations

from conformance.model.setting import Axes
from conformance.repro.forms import Call, Repro, Short
from conformance.repro.suites.initialize import INITIALIZE, call, step

ALONE = """
MPI = types.SimpleNamespace(  # what mpi4py says where its MPI knows of no other rank
    Get_processor_name=lambda: "here",
    COMM_WORLD=types.SimpleNamespace(
        Get_rank=lambda: 0, Get_size=lambda: 1, bcast=lambda value, root=0: value, allgather=lambda value: [value]
    ),
)
"""
WITH_PORT = INITIALIZE.replace(", config=CONFIG", ", config=CONFIG, distributed_port=port")
FORGET = """
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        del os.environ[name]
"""
OWN_PORT = 'port = socket.create_server(("", 0)).getsockname()[1]  # as on a host of its own'


def _trains_alone(axes: Axes, forget: str) -> Call | None:
    body = f"""
        {forget}
        sys.modules["mpi4py"] = types.SimpleNamespace(MPI=MPI)
        {OWN_PORT}
        try:
            {WITH_PORT}
        except Exception:
            return  # refused: that would do
        world = torch.distributed.get_world_size()
        assert world == 2, f"rank {{rank}} of 2 trains alone, in a world of {{world}}, and nothing says so"
    """
    return call(axes, body, functions=ALONE, expected="Both ranks train together, or the start is refused.")


def variable_missing(axes: Axes) -> Repro | None:
    """A variable is missing, and MPI knows of no other rank."""
    return _trains_alone(axes, f'del os.environ["{axes["missing"]}"]') if axes["mpi"] == "alone" else None


def another_mpi(axes: Axes) -> Repro | None:
    """mpiexec started the ranks, and mpi4py is bound to another MPI."""
    started = 'os.environ.update(PMI_RANK=str(rank), PMI_SIZE="2")  # as MPICH\'s mpiexec does'
    names = '"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"'
    return _trains_alone(axes, f"for name in ({names}):\n            del os.environ[name]\n        {started}")


def hostname_command(axes: Axes) -> Repro | None:
    """`hostname -I` is not there, or prints nothing."""
    if axes["answer"] not in ("nothing", "missing"):
        return None
    empty = axes["answer"] == "nothing"
    command = """
        pathlib.Path("hostname").write_text("#!/bin/sh\\necho\\n")
        pathlib.Path("hostname").chmod(0o755)
    """
    place = "os.getcwd()  # where `hostname` prints nothing" if empty else '""  # where there is no `hostname`'
    start = f"""
        sys.modules["mpi4py"] = types.SimpleNamespace(MPI=MPI)
        os.environ["PATH"] = {place}
        {OWN_PORT.partition("  #")[0]}
        {WITH_PORT}
    """
    expected = "Where `hostname -I` gives no address, the resolver is asked."
    return call(
        axes, FORGET, command if empty else "", start, step(), functions=ALONE, uses_folder=empty, expected=expected
    )


def cloud(axes: Axes) -> Repro | None:
    """AzureML without NCCL_SOCKET_IFNAME."""
    if axes["cloud"] != "azure":
        return None
    start = """
        host = os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"]
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"):
            del os.environ[name]
        os.environ.update(AZUREML_EXPERIMENT_ID="experiment", AZ_BATCH_MASTER_NODE=host)
        os.environ.update(OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2")
        os.environ.update(OMPI_COMM_WORLD_LOCAL_RANK="0", OMPI_COMM_WORLD_LOCAL_SIZE="1")
    """
    return call(axes, start, INITIALIZE, step())


def local_rank_wrong(axes: Axes) -> Repro | None:
    """LOCAL_RANK is negative."""
    if axes["value"] != "negative":
        return None
    judge = f"""
        found, world = (engine.global_rank, engine.world_size), {axes["world"]}
        says = f"the engine takes itself for rank {{found[0]}} of {{found[1]}}, and nothing says so"
        assert found == (rank, world), f"rank {{rank}} of {{world}}: {{says}}"
    """
    return call(axes, 'os.environ["LOCAL_RANK"] = "-1"', INITIALIZE, judge)


def port_taken(axes: Axes) -> Repro | None:
    """Another program listens on MASTER_PORT, and says nothing."""
    if axes["world"] != 2:
        return None
    body = """
        listener = socket.create_server(("", 0))  # another program, which accepts and says nothing
        os.environ.update(RANK="1", WORLD_SIZE="2", MASTER_PORT=str(listener.getsockname()[1]))
        begin, given = time.monotonic(), {"timeout": datetime.timedelta(seconds=1)}
        waiting = threading.Thread(target=deepspeed.init_distributed, kwargs=given, daemon=True)
        waiting.start()
        waiting.join(10)
        seconds = time.monotonic() - begin
        assert not waiting.is_alive(), f"rank 1 waited {seconds:.0f} s, with a timeout of 1 s"
    """
    return call(axes, body, config=None, ranks=1)


def restart(axes: Axes) -> Repro | None:
    """Three starts in one process; from the second on one rank is late."""
    agent = """
        if rank == 0:  # as torchrun's agent, whose store outlives each start
            port = int(os.environ["MASTER_PORT"])
            STORES.append(torch.distributed.TCPStore("127.0.0.1", port, None, True, wait_for_workers=False))
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    """
    body = f"""
        for number in range(3):
            time.sleep(0.5 if number and rank == {axes["late"]} else 0)
            deepspeed.init_distributed(timeout=datetime.timedelta(seconds=5))
            {INITIALIZE}
            engine.backward(engine(torch.ones(2, 4)).sum())
            engine.step()
            engine.destroy()
            deepspeed.comm.destroy_process_group()
    """
    if axes["store"] == "agent":
        return call(axes, agent, body, functions="STORES = []")
    return call(axes, body)


def restart_after_torch(axes: Axes) -> Repro | None:
    """The second start of two, after torch's own destroy_process_group."""
    return call(axes, INITIALIZE, "torch.distributed.destroy_process_group()", INITIALIZE, step())


SHORT: dict[str, dict[str, Short]] = {
    "deepspeed": {
        "variable_missing": variable_missing,
        "another_mpi": another_mpi,
        "hostname_command": hostname_command,
        "cloud": cloud,
        "local_rank_wrong": local_rank_wrong,
        "port_taken": port_taken,
        "restart": restart,
        "restart_after_torch": restart_after_torch,
    },
}
"""By the names of integrations and cases."""
