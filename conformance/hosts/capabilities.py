"""Finding out, in a rank, what the host can do."""

from __future__ import annotations

import contextlib
import json
import locale
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psutil

from conformance.model.capability import Value, encoding_name
from conformance.model.setting import Observation, Setting

FILE: Final = "capabilities.jsonl"
"""In the job's folder: a line when a capability is asked for, and one with the answer."""

SHARED_MEMORY: Final = Path("/dev/shm")


def find(setting: Setting) -> Observation:
    """A scenario: find out the capabilities in the parameter `names`, one after another.

    Each answer is written down as it comes, so that one that hangs or ends the process does not cost the others.
    """
    if setting.rank not in (None, 0):
        return {}
    # mpiexec alone numbers its ranks; the first who comes asks, the others have nothing to do.
    with contextlib.suppress(FileExistsError), (setting.folder / FILE).open("x", encoding="utf-8") as file:

        def say(**line: object) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        for name in setting["names"]:
            say(asked=name)
            try:
                value = FINDERS[name]()
            except Exception as error:
                say(name=name, problem=f"{type(error).__name__}: {error}")
            else:
                say(name=name, value=value)
    return {}


def _accelerator() -> Any:
    from deepspeed.accelerator import get_accelerator

    return get_accelerator()


def _dtype(name: str, supported: Callable[[], object]) -> bool:
    """DeepSpeed's answer, where its two ways to give it say the same."""
    import torch

    says, lists = bool(supported()), getattr(torch, name) in _accelerator().supported_dtypes()
    if says is not lists:
        raise RuntimeError(f"the accelerator says {says}, its supported_dtypes() {lists}")
    return says


def accelerator() -> str:
    """What DeepSpeed takes for its accelerator: `cpu`, `cuda`."""
    return str(_accelerator().device_name())


def fp16() -> bool:
    """Whether DeepSpeed's accelerator computes in fp16."""
    return _dtype("float16", _accelerator().is_fp16_supported)


def bf16() -> bool:
    """Whether DeepSpeed's accelerator computes in bf16."""
    return _dtype("bfloat16", _accelerator().is_bf16_supported)


def aten_isa() -> str:
    """The instruction set that ATen's kernels use, after ATEN_CPU_CAPABILITY: `DEFAULT`, `AVX2`, `AVX512`."""
    import torch

    return str(torch.backends.cpu.get_cpu_capability())


def onednn_isa() -> str:
    """The instruction set that oneDNN uses, after ONEDNN_MAX_CPU_ISA, in its words; `none` where torch lacks oneDNN.

    oneDNN tells it in the lines that come before its first verbose one, and in no other way that wheels export.
    """
    import torch
    from torch.backends import mkldnn

    if not mkldnn.is_available():  # type: ignore[no-untyped-call]
        return "none"
    with _written() as written, mkldnn.verbose(mkldnn.VERBOSE_ON):  # type: ignore[no-untyped-call]
        torch.nn.functional.conv2d(torch.ones(2, 16, 16, 16), torch.ones(16, 16, 3, 3))  # large enough for oneDNN
    for line in written():
        _, found, isa = line.partition(",cpu,isa:")
        if found:
            return isa.strip()
    raise RuntimeError("oneDNN told nothing of itself, as after its first verbose line in a process")


@contextlib.contextmanager
def _written() -> Iterator[Callable[[], list[str]]]:
    """What the process, libraries included, writes to its standard output; to be read afterwards."""
    sys.stdout.flush()
    kept = os.dup(1)
    lines: list[str] = []
    try:
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 1)
            try:
                yield lambda: lines
            finally:
                _flush_c()
                os.dup2(kept, 1)
            file.seek(0)
            lines += file.read().decode("utf-8", "replace").splitlines()
    finally:
        os.close(kept)


def _flush_c() -> None:
    """Have the C library write what it has buffered."""
    import ctypes

    library = ctypes.CDLL("ucrtbase") if sys.platform == "win32" else ctypes.CDLL(None)
    library.fflush(None)


def amx() -> bool:
    """Whether torch may use the processor's tile registers, for which the system has to be asked."""
    import torch

    return bool(torch.cpu._is_amx_tile_supported() and torch.cpu._init_amx())


def libuv() -> bool:
    """Whether torch's TCPStore has been built with libuv, which torchrun asks for."""
    import datetime

    from torch._C._distributed_c10d import TCPStore

    try:
        TCPStore("127.0.0.1", 0, None, True, datetime.timedelta(seconds=10), wait_for_workers=False, use_libuv=True)
    except RuntimeError as error:  # torch.distributed.DistStoreError where it is something else, which is one too
        if "built without libuv" in str(error):
            return False
        raise
    return True


def cores() -> float:
    """How many processors' worth of time ranks may use: those that this process may run on, or a cgroup's quota."""
    process = psutil.Process()
    allowed = len(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else os.cpu_count() or 1
    quota = min((share for group in _cgroups() if (share := _quota(group)) is not None), default=allowed)
    least = min(allowed, quota)
    return int(least) if least == int(least) else round(least, 2)


def memory_bytes() -> int:
    """How much memory ranks may use: the machine's, or the least limit of their cgroups."""
    limits = [limit for group in _cgroups() for name in _MEMORY_LIMITS if (limit := _number(group / name)) is not None]
    return min([psutil.virtual_memory().total, *limits])


def shm_bytes() -> int:
    """The size of /dev/shm; 0 where there is none."""
    return shutil.disk_usage(SHARED_MEMORY).total if SHARED_MEMORY.is_dir() else 0


_CGROUPS: Final = Path("/sys/fs/cgroup")
_MEMORY_LIMITS: Final = ("memory.max", "memory.limit_in_bytes")


def _cgroups(root: Path = _CGROUPS, told: Path = Path("/proc/self/cgroup")) -> Iterator[Path]:
    """The folders of the cgroups that this process is in, innermost first, of version 2 or of 1's controllers."""
    try:
        lines = told.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for base in [root / name for name in (controllers, *controllers.split(","))] if controllers else [root]:
            group = base / path.lstrip("/")
            # In a container the path may be the host's, which is not mounted here: its root is then ours.
            while group != base.parent:
                if group.is_dir():
                    yield group
                group = group.parent


def _quota(group: Path) -> float | None:
    """How many processors' worth of time a cgroup has; None for no limit."""
    try:
        limit, period = (group / "cpu.max").read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        parts = _number(group / "cpu.cfs_quota_us"), _number(group / "cpu.cfs_period_us")
        return parts[0] / parts[1] if parts[0] and parts[1] else None
    return None if limit == "max" else int(limit) / int(period)


def _number(file: Path) -> int | None:
    """A whole number in a file; None where there is none, or `max`, or -1."""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def locale_encoding() -> str:
    """The encoding of the user's locale, which is `open`'s unless Python is in UTF-8 mode, as ranks are."""
    return encoding_name(locale.getencoding())


def filesystem_encoding() -> str:
    """The encoding of file names."""
    return encoding_name(sys.getfilesystemencoding())


def ipv6() -> bool:
    """Whether a socket can listen on ::1."""
    if not socket.has_ipv6:
        return False
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as listener:
            listener.bind(("::1", 0))
    except OSError:
        return False
    return True


def container() -> str:
    """Which kind of container this is, by the signs that they leave; `none` where there is no sign."""
    if given := os.environ.get("container"):  # noqa: SIM112, podman's and systemd-nspawn's own spelling
        return given
    for sign, kind in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if Path(sign).exists():
            return kind
    return "kubernetes" if "KUBERNETES_SERVICE_HOST" in os.environ else "none"


FINDERS: Final[Mapping[str, Callable[[], Value]]] = {
    # What can end a process comes last.
    "accelerator": accelerator,
    "fp16": fp16,
    "bf16": bf16,
    "cores": cores,
    "memory_bytes": memory_bytes,
    "shm_bytes": shm_bytes,
    "locale_encoding": locale_encoding,
    "filesystem_encoding": filesystem_encoding,
    "ipv6": ipv6,
    "container": container,
    "libuv": libuv,
    "aten_isa": aten_isa,
    "amx": amx,
    "onednn_isa": onednn_isa,
}
