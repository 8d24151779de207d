"""Starting and ending processes on Windows: each in a job object, which ends with all that is in it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from conformance.ranks.pool.hub import HarnessError, Hub, Process

if sys.platform == "win32":
    from ctypes import wintypes

    _LIMIT_INFORMATION = 9
    _ACCOUNTING_INFORMATION = 1
    _KILL_ON_JOB_CLOSE = 0x2000
    _TERMINATED = 1

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", wintypes.LARGE_INTEGER),
            ("PerJobUserTimeLimit", wintypes.LARGE_INTEGER),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _Limits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_ulonglong * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    class _Accounting(ctypes.Structure):
        _fields_ = (
            ("TotalUserTime", wintypes.LARGE_INTEGER),
            ("TotalKernelTime", wintypes.LARGE_INTEGER),
            ("ThisPeriodTotalUserTime", wintypes.LARGE_INTEGER),
            ("ThisPeriodTotalKernelTime", wintypes.LARGE_INTEGER),
            ("TotalPageFaultCount", wintypes.DWORD),
            ("TotalProcesses", wintypes.DWORD),
            ("ActiveProcesses", wintypes.DWORD),
            ("TotalTerminatedProcesses", wintypes.DWORD),
        )

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateJobObjectW.restype = wintypes.HANDLE
    _kernel.CreateJobObjectW.argtypes = (wintypes.LPVOID, wintypes.LPCWSTR)
    _kernel.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
    _kernel.QueryInformationJobObject.argtypes = (
        wintypes.HANDLE,
        ctypes.c_int,
        wintypes.LPVOID,
        wintypes.DWORD,
        wintypes.LPVOID,
    )
    _kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
    _kernel.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
    _kernel.CloseHandle.argtypes = (wintypes.HANDLE,)

    class JobObject:
        """A set of processes that ends when it is told to, or when this process ends in whatever way.

        Raises:
            OSError: Windows refuses.
        """

        def __init__(self) -> None:
            self._handle = _kernel.CreateJobObjectW(None, None)
            if not self._handle:
                raise ctypes.WinError(ctypes.get_last_error())
            limits = _Limits()
            limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
            if not _kernel.SetInformationJobObject(
                self._handle, _LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
            ):
                raise ctypes.WinError(ctypes.get_last_error())

        def take(self, process: subprocess.Popen[bytes]) -> None:
            """Put a process, and all that it will start, into the set."""
            if not _kernel.AssignProcessToJobObject(self._handle, int(process._handle)):  # type: ignore[attr-defined]
                raise ctypes.WinError(ctypes.get_last_error())

        def active(self) -> int:
            """How many processes in it run."""
            counts = _Accounting()
            if not _kernel.QueryInformationJobObject(
                self._handle, _ACCOUNTING_INFORMATION, ctypes.byref(counts), ctypes.sizeof(counts), None
            ):
                raise ctypes.WinError(ctypes.get_last_error())
            return int(counts.ActiveProcesses)

        def end(self, timeout: float) -> bool:
            """Kill every process in it; False if one still runs after `timeout` seconds."""
            _kernel.TerminateJobObject(self._handle, _TERMINATED)
            limit = time.monotonic() + timeout
            while self.active():
                if time.monotonic() > limit:
                    return False
                time.sleep(0.01)
            return True

        def close(self) -> None:
            """Let go of it; processes that are still in it are killed."""
            _kernel.CloseHandle(self._handle)

    class WindowsStarter:
        """Starts processes from here; `hub` is polled while waiting for them."""

        def __init__(self, hub: Hub) -> None:
            self._hub = hub
            self._running: dict[Process, tuple[subprocess.Popen[bytes], JobObject]] = {}
            hub.look_often(self._look)

        @property
        def alive(self) -> bool:
            """Always: it is this process."""
            return True

        def spawn(self, command: Sequence[str], environment: dict[str, str], folder: Path, log: Path) -> Process:
            """Start a program; that it could not be started shows in the process."""
            process = Process(self._hub.next_key(), log)
            job = JobObject()
            try:
                with log.open("ab") as output:
                    popen = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                        env=environment,
                        cwd=folder,
                        creationflags=subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW,
                    )
            except (OSError, ValueError) as error:
                job.close()
                process.failure = f"{command[0]}: {error}"
                return process
            job.take(popen)
            self._running[process] = (popen, job)
            return process

        def stop(self, processes: Iterable[Process], patience: float) -> None:
            """Wait up to `patience` seconds for these to end, then kill them and all that they started.

            Raises:
                HarnessError: a process outlives being killed.
            """
            mine = [process for process in processes if process in self._running]
            self._hub.wait(lambda: all(process.ended for process in mine), patience)
            for process in mine:
                popen, job = self._running.pop(process)
                process.killed = popen.poll() is None
                ended = job.end(_KILL_TIMEOUT)
                job.close()
                if not ended:
                    raise HarnessError(f"process {popen.pid} or one that it started cannot be killed")
                process.exit_code = _as_signed(popen.wait())

        def count(self, process: Process) -> int:
            """How many processes run in its job object."""
            running = self._running.get(process)
            return running[1].active() if running is not None else 0

        def close(self) -> None:
            """Kill everything."""
            self.stop(list(self._running), 0.0)

        def _look(self) -> None:
            for process, (popen, _) in self._running.items():
                code = popen.poll()
                if code is not None:
                    process.exit_code = _as_signed(code)

    _KILL_TIMEOUT = 10.0

    def _as_signed(code: int) -> int:
        """Windows's NTSTATUS codes as the negative numbers that other tools show, others as they are."""
        return code - (1 << 32) if code >= 1 << 31 else code
