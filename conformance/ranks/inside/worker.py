"""One rank's process: connect back, import ahead, run scenarios, report, leave."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import pickle
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from conformance.ranks.inside import shared_memory_op
from conformance.ranks.inside.restore import Snapshot
from conformance.ranks.outcome import RankError
from conformance.ranks.platform import posix
from conformance.ranks.protocol import channel, invitation
from conformance.ranks.protocol.messages import Clean, Hello, Order, Raised, Ready, Returned, Tidy
from conformance.ranks.protocol.plain import not_plain

_NUMBERS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
"""The variables in which mpiexec tells a process its rank."""


def main() -> NoReturn:
    """The life of a rank in a fresh interpreter."""
    posix.die_with(os.getppid())
    invited = invitation.accept()
    speak_utf8()
    number = next((int(os.environ[name]) for name in _NUMBERS if name in os.environ), None)
    try:
        connection = invited.connect()
        connection.send(Hello(os.getpid(), number))
        if invited.preload:
            from conformance.ranks.inside import warm

            warm.up_as_far_as_possible(invited.preload)
        connection.send(Ready())
    except OSError:
        leave(1)
    serve(connection, invited.preload)


def serve(connection: channel.Channel, preload: tuple[str, ...] = ()) -> NoReturn:
    """Take orders, run them and report, until told to leave.

    Args:
        connection: to the harness.
        preload: what was imported ahead, to be restored after each of several orders.
    """
    snapshot: Snapshot | None = None
    code = 1
    try:
        while True:
            order = connection.receive()
            if isinstance(order, Tidy) and snapshot is not None:
                connection.send(Clean(snapshot.restore()))
                continue
            if not isinstance(order, Order):
                if order.together:
                    finalize_mpi()
                break
            if order.again and snapshot is None:
                snapshot = Snapshot({name.partition(".")[0] for name in preload} - {"torch"})
            report = run(order)
            code = 1 if isinstance(report, Raised) else 0
            if snapshot is not None:
                snapshot.leave_folder()
            connection.send(report)
            if code == 1:
                break
    except (EOFError, OSError):
        code = 1
    leave(code)


def finalize_mpi() -> None:
    """Say goodbye to MPI, where this process has started it: mpiexec takes an exit without that for a failure."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.Finalize()


def leave(code: int) -> NoReturn:
    """End without interpreter shutdown, which may hang or crash in threads of collectives."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def run(order: Order) -> Returned | Raised:
    """Run the order's scenario in the settings that it names."""
    redirect(order.log)
    for name, value in order.environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    os.chdir(order.setting.folder)
    sys.path[:0] = [root for root in order.roots if root not in sys.path]
    sys.argv = ["scenario"]
    if os.environ.get("CONFORMANCE_SHM_COMM") == "1":
        shared_memory_op.switch_on()
    else:
        shared_memory_op.switch_off()
    with order.stacks.open("wb") as stacks:
        faulthandler.dump_traceback_later(order.deadline, file=stacks)
        faulthandler.enable()
        begin = time.perf_counter()
        try:
            observation = find(order.scenario)(order.setting)
        except BaseException as error:  # SystemExit and KeyboardInterrupt end a real trainer just so
            return Raised(describe(error), time.perf_counter() - begin)
        finally:
            seconds = time.perf_counter() - begin
            faulthandler.cancel_dump_traceback_later()
    return report_of(observation, seconds)


def report_of(observation: Any, seconds: float) -> Returned | Raised:
    """What a scenario returned, as a message."""
    try:
        reason = not_plain(observation)
        if reason is None and type(observation) is not dict:
            reason = f"the scenario returned {type(observation).__qualname__}; expected a dict of plain data"
        if reason is None:
            return Returned(pickle.dumps(observation, protocol=pickle.HIGHEST_PROTOCOL), seconds)
        return Raised(RankError("TypeError", reason, ""), seconds, reportable=False)
    except Exception as error:
        return Raised(describe(error), seconds, reportable=False)


def describe(error: BaseException) -> RankError:
    """An exception as text, with the one that it was raised from in the end; what cannot be printed has its type."""
    name, message = _name(error), _text(error)
    if (cause := innermost(error)) is not error:
        message += f" (caused by {_name(cause)}: {_text(cause)})"
    try:
        lines = "".join(traceback.format_exception(error))
    except Exception:
        lines = "".join(traceback.format_tb(error.__traceback__))
    return RankError(name, message, lines)


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as unprintable:
        return f"(its text cannot be had: {type(unprintable).__name__})"


def innermost(error: BaseException) -> BaseException:
    """The exception that `error` was raised from in the end; `error` itself where it was not raised from another."""
    seen = {id(error)}
    while error.__cause__ is not None and id(error.__cause__) not in seen:
        error = error.__cause__
        seen.add(id(error))
    return error


def find(scenario: str) -> Any:
    """The function that `module:qualified.name` names."""
    module, _, name = scenario.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def redirect(log: Path) -> None:
    """Send stdout and stderr, of C code too, to the end of `log`, and let stdin be at its end."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    binary = getattr(os, "O_BINARY", 0)  # Windows would write a second \r
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | binary, 0o666)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def speak_utf8() -> None:
    """Let text streams write whole lines in UTF-8 whatever the locale, and never fail on a character."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
