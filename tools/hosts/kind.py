"""A kind of host: what is different from the machine that it is emulated on, as a plain value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

Value = bool | int | float | str

EVERYWHERE: Final = ("linux", "win32")
LINUX: Final = ("linux",)


@dataclasses.dataclass(frozen=True)
class Conditions:
    """What a process finds on the emulated host. What is left at its default is as on this machine.

    Attributes:
        environment: variables to set; None unsets one.
        cores: how many cores processes may use.
        busy: whether other processes keep every core at work.
        memory_bytes: what all processes together may use.
        shm_bytes: the size of /dev/shm.
        locale: a locale, such as `zh_CN.GBK`, in all categories.
        temporary: the name of the folder for temporary files.
        read_only: whether nothing can be written into the checkout.
        user: a user id that has no name, no home and no rights of its own.
        network: `host`, `ipv4` (no IPv6 address, an interface beside the loopback one) or `loopback`.
        host_name: what the host is called.
        ignored: names of signals that are ignored.
        stdin: whether standard input is open.
        umask: the mode bits that new files lack.
        software_fp16: whether DeepSpeed takes this CPU for one that computes fp16; PyTorch then does so in software.
    """

    environment: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    cores: int | None = None
    busy: bool = False
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    locale: str | None = None
    temporary: str | None = None
    read_only: bool = False
    user: int | None = None
    network: str = "host"
    host_name: str | None = None
    ignored: tuple[str, ...] = ()
    stdin: bool = True
    umask: int | None = None
    software_fp16: bool = False

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Conditions:
        """What `to_plain` gave."""
        return cls(**{**plain, "ignored": tuple(plain["ignored"])})


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of host.

    Attributes:
        name: as --kind, folders and records have it.
        title: what is special about it, in a few words.
        conditions: what is different from this machine.
        cells: globs of the cells that it concerns, beside the smoke profile.
        smoke: whether the smoke profile is run too.
        proof: capabilities that a record made there must show; otherwise the emulation did not work.
        systems: the values of `sys.platform` that it can be emulated on.
        cpu: flags of /proc/cpuinfo that it takes away; on a CPU that has none of them it is no other host.
        python: the interpreter, where it is another than this one.
    """

    name: str
    title: str
    conditions: Conditions
    cells: tuple[str, ...] = ()
    smoke: bool = True
    proof: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    systems: tuple[str, ...] = LINUX
    cpu: frozenset[str] = frozenset()
    python: str | None = None


PLAIN: Final = Kind("plain", "this machine as it is", Conditions(), systems=EVERYWHERE)
"""What every other kind is compared with."""
