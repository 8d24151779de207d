"""The way to start processes on this operating system."""

from __future__ import annotations

import sys

from conformance.ranks.circumstances import Circumstances
from conformance.ranks.hub import HarnessError, Hub, Starter


def open_starter(hub: Hub, circumstances: Circumstances) -> Starter:
    """Something that starts fresh programs and ends them with all that they started.

    Raises:
        HarnessError: there is none.
    """
    if sys.platform == "win32":
        from conformance.ranks.windows import WindowsStarter

        return WindowsStarter(hub)
    if sys.platform == "linux":
        from conformance.ranks.linux import LinuxStarter

        return LinuxStarter(hub, circumstances, circumstances.folder / "keeper.log")
    raise HarnessError(f"ranks can be started on linux and win32; this is {sys.platform}")
