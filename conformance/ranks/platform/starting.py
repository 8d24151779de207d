"""The way to start processes on this operating system."""

from __future__ import annotations

import sys

from conformance.ranks.pool.hub import HarnessError, Hub, Starter
from conformance.ranks.pool.settings import PoolSettings


def open_starter(hub: Hub, settings: PoolSettings) -> Starter:
    """Something that starts fresh programs and ends them with all that they started.

    Raises:
        HarnessError: there is none.
    """
    if sys.platform == "win32":
        from conformance.ranks.platform.windows import WindowsStarter

        return WindowsStarter(hub)
    if sys.platform == "linux":
        from conformance.ranks.platform.linux import LinuxStarter

        return LinuxStarter(hub, settings, settings.folder / "agent.log")
    raise HarnessError(f"ranks can be started on linux and win32; this is {sys.platform}")
