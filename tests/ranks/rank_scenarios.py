"""What planted ranks do: every way of going wrong, and a few of going right."""

from __future__ import annotations

import ctypes
import faulthandler
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from conformance.model.setting import Setting

SLEEPER = "import time; time.sleep(600)"


def echo(setting: Setting) -> dict[str, Any]:
    return {"rank": setting.rank, "pid": os.getpid(), "parent": os.getppid(), "parameters": dict(setting.parameters)}


def variables(setting: Setting) -> dict[str, Any]:
    return {
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "threads": threading.active_count(),
        "pid": os.getpid(),
    }


def signals(setting: Setting) -> dict[str, Any]:
    ignored = [number.name for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN]
    held = [number.name for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
    interrupt = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return {"ignored": sorted(ignored), "held": held, "interrupt": interrupt}


def hang(setting: Setting) -> NoReturn:
    while True:
        time.sleep(3600)


def hang_holding_the_gil(setting: Setting) -> NoReturn:
    ctypes.PyDLL(None).usleep(600_000_000)
    raise AssertionError


def stop_itself(setting: Setting) -> dict[str, Any]:
    import psutil

    psutil.Process().suspend()
    return {}


def kill_itself(setting: Setting) -> NoReturn:
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    raise AssertionError


def kill_rank_1(setting: Setting) -> dict[str, Any]:
    if setting.rank == 1:
        kill_itself(setting)
    time.sleep(600)
    return {}


def segfault(setting: Setting) -> dict[str, Any]:
    if sys.platform == "win32":  # where ctypes turns an access violation into an OSError
        faulthandler._sigsegv()
    return {"read": ctypes.string_at(0)}


def exit_quietly(setting: Setting) -> NoReturn:
    os._exit(int(setting["code"]))


def exit_politely(setting: Setting) -> NoReturn:
    sys.exit(3)


def raise_unprintable(setting: Setting) -> NoReturn:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    raise Unprintable


def fail_rank_1_in_a_collective(setting: Setting) -> dict[str, Any]:
    import torch

    torch.distributed.init_process_group("gloo")
    if setting.rank == 1:
        raise ValueError("planted: größer")
    torch.distributed.all_reduce(torch.ones(1))
    return {}


def hang_rank_1_in_a_collective(setting: Setting) -> dict[str, Any]:
    import torch

    torch.distributed.init_process_group("gloo")
    if setting.rank == 1:
        hang(setting)
    torch.distributed.all_reduce(torch.ones(1))
    return {}


def forget_rank_1(setting: Setting) -> dict[str, Any]:
    """Rank 0 returns at once, rank 1 never does."""
    if setting.rank == 1:
        hang(setting)
    return {"rank": 0}


def return_a_lock(setting: Setting) -> dict[str, Any]:
    return {"weights": {"lock": threading.Lock()}}


def return_a_tensor(setting: Setting) -> dict[str, Any]:
    import torch

    return {"losses": [torch.zeros(1)]}


def return_itself(setting: Setting) -> dict[str, Any]:
    result: dict[str, Any] = {}
    result["again"] = result
    return result


def return_nothing(setting: Setting) -> None:
    return None


def return_64_mib(setting: Setting) -> dict[str, Any]:
    import numpy

    return {"array": numpy.arange(8 << 20, dtype=numpy.float64) + float(setting.rank or 0), "end": "end"}


def write_a_lot(setting: Setting) -> dict[str, Any]:
    print("the very first line")
    line = "x" * 1023 + "\n"
    for _ in range(20):
        sys.stdout.write(line * 1024)
    print("the very last line")
    return {}


def write_bytes(setting: Setting) -> dict[str, Any]:
    print("plain, größer")
    sys.stdout.flush()
    os.write(1, b"broken \xff\xfe\x00 bytes\n")
    os.write(2, b"to stderr\r\n")
    return {}


def leave_children(setting: Setting) -> dict[str, Any]:
    """A child, a grandchild in its own session whose parent has gone, and a grandchild whose parent lives on."""
    python = [sys.executable, "-I", "-S", "-c"]
    own_session = (
        "import subprocess, sys\n"
        f"p = subprocess.Popen([*{python!r}, {SLEEPER!r}], start_new_session=True, stdout=subprocess.DEVNULL)\n"
        "print(p.pid, flush=True)\n"
    )
    child = subprocess.Popen([*python, SLEEPER])
    gone = subprocess.Popen([*python, own_session], stdout=subprocess.PIPE)
    parent = subprocess.Popen([*python, own_session + SLEEPER], stdout=subprocess.PIPE)
    assert gone.stdout is not None
    assert parent.stdout is not None
    pids = [child.pid, int(gone.stdout.readline()), parent.pid, int(parent.stdout.readline())]
    gone.wait()
    (setting.folder / f"left{setting.rank}.txt").write_text(" ".join(map(str, pids)), encoding="utf-8")
    if setting.get("then") == "hang":
        hang(setting)
    if setting.get("then") == "exit":
        os._exit(5)
    return {"pids": pids}


def close_standard_files(setting: Setting) -> dict[str, Any]:
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    return {"rank": setting.rank}


def hang_up(setting: Setting) -> NoReturn:
    """Closes everything, the connection to the harness too, and runs on."""
    os.closerange(0, 1024)
    hang(setting)


def spoil(setting: Setting) -> dict[str, Any]:
    """Leaves traces all over the process."""
    os.environ["LEFT_BEHIND"] = "yes"
    os.environ.pop("MASTER_PORT", None)
    sys.path.insert(0, "left-behind")
    os.chdir(os.path.sep)
    threading.Thread(target=time.sleep, args=(600,)).start()
    return {"pid": os.getpid()}


def initialise_again(setting: Setting) -> dict[str, Any]:
    """Several process groups one after the other, each started when rank 0 has ended its store of the last."""
    import torch

    sums = []
    for turn in range(setting["times"]):
        torch.distributed.init_process_group("gloo")
        value = torch.tensor([float(turn + 1)])
        torch.distributed.all_reduce(value)
        torch.distributed.barrier(torch.distributed.new_group())
        torch.distributed.destroy_process_group()
        sums.append(value.item())
        ended = setting.folder / f"ended{turn}"
        if setting.rank == 0:
            ended.touch()
        while not ended.exists():
            time.sleep(0.01)
    return {"sums": sums}


def train(setting: Setting) -> dict[str, Any]:
    """Three real steps with ZeRO; the same in every mode."""
    import random

    import deepspeed
    import numpy
    import torch

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo", verbose=False)
    first = torch.rand(1).item()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    optimizer = {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}}
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_clipping": 0.0,
        "zero_optimization": {"stage": int(setting.get("stage", 2))},
        "optimizer": optimizer,
    }
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=config)
    generator = torch.Generator().manual_seed(torch.distributed.get_rank())
    losses = []
    for _ in range(3):
        loss = engine(torch.randn(4, 16, generator=generator)).square().mean()
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters()), enabled=setting.get("stage") == 3):
        weights = b"".join(weight.detach().numpy().tobytes() for weight in engine.module.parameters())
    engine.destroy()
    torch.distributed.destroy_process_group()
    return {
        "pid": os.getpid(),
        "path": list(sys.path),
        "grad": torch.is_grad_enabled(),
        "linear": torch.nn.functional.linear.__module__,
        "weights": hashlib.sha256(weights).hexdigest(),
        "losses": losses,
        "default": str(torch.get_default_dtype()),
        "random": [random.random(), float(numpy.random.random()), first],
    }


def litter(setting: Setting) -> dict[str, Any]:
    """Leaves torch and DeepSpeed as a careless trainer would: nothing destroyed, defaults changed."""
    import logging
    import warnings

    import deepspeed
    import torch

    deepspeed.init_distributed("gloo", verbose=False)
    model = torch.nn.Linear(8, 8)
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": 3},
        "optimizer": {"type": "Adam", "params": {"torch_adam": True}},
    }
    engine, _, _, _ = deepspeed.initialize(model=model, config=config)
    loss = engine(torch.ones(1, 8)).sum()
    engine.backward(loss)
    engine.step()
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.manual_seed(5)
    torch.nn.functional.linear = lambda *_: None
    torch.nn.modules.module.register_module_forward_hook(lambda *_: 1 / 0)
    warnings.simplefilter("error")
    logging.getLogger("DeepSpeed").setLevel(logging.CRITICAL)
    os.environ["DEEPSPEED_TIMEOUT"] = "nonsense"
    sys.path.insert(0, "left-behind")
    return {"pid": os.getpid(), "open": (setting.folder / "open.txt").open("w", encoding="utf-8").closed}


def tell_mpi_place(setting: Setting) -> dict[str, Any]:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    told = [name for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name in os.environ]
    return {
        "rank": world.rank,
        "size": world.size,
        "sum": world.allreduce(world.rank),
        "told": [setting.rank, *told],
        "pid": os.getpid(),
    }


def end_mpi_rank_1(setting: Setting) -> dict[str, Any]:
    """Rank 1 ends in the way that `how` names, while rank 0 waits for it."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    world.Barrier()
    if world.rank == 1:
        match setting["how"]:
            case "raise":
                raise ValueError("planted")
            case "exit":
                os._exit(7)
            case "crash":
                segfault(setting)
            case "hang":
                hang(setting)
    world.Barrier()
    return {}
