"""Cells that go wrong on purpose."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from typing import Any

from conformance.model.case import case
from conformance.model.setting import Axes, Setting
from conformance.model.verdict import NotRun, Unsupported


def misbehave(setting: Setting) -> dict[str, Any]:
    """Rank 1 does what the axis says; rank 0 is well."""
    if os.environ["RANK"] == "1":
        match setting["kind"]:
            case "raise":
                raise ValueError("planted")
            case "sigkill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "sigsegv":
                ctypes.string_at(0)
            case "exit0":
                os._exit(0)
            case "exit7":
                os._exit(7)
            case "hang":
                time.sleep(3600)
            case "unpicklable":
                return {"bad": lambda: None}
            case "badlog":
                sys.stdout.flush()
                os.write(1, b"\xff\xfe not UTF-8 <script>alert(1)</script>\n")
                raise ValueError("see the log")
    return {"rank": int(os.environ["RANK"])}


@case("planted/fault", misbehave)
def check_fault(observations: list[dict[str, Any]]) -> None:
    assert [seen["rank"] for seen in observations] == [0, 1]


def nothing(_setting: Setting) -> dict[str, Any]:
    return {"answer": 42}


@case("planted/check", nothing)
def check_check(axes: Axes, observations: list[dict[str, Any]], measured: dict[str, float]) -> None:
    measured["answer"] = observations[0]["answer"]
    match axes["says"]:
        case "fail":
            assert observations[0]["answer"] == 41, "the answer is not 41"
        case "error":
            raise KeyError("a mistake in the check")
        case "unsupported":
            raise Unsupported("refused with the right error")
        case "not_run":
            raise NotRun("a second moon", "wait")


@case("planted/known", nothing)
def check_known(axes: Axes) -> None:
    assert axes["now"] != "broken", "the answer is 41"
    assert axes["now"] != "differently_broken", "something else"


@case("planted/probed", nothing)
def check_probed() -> None:
    raise AssertionError("never reached: the probe does not hold")
