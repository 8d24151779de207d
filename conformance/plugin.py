"""The pytest plugin: options, cells as test items, and the way from items to records."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

import pytest

from conformance.matrix import MatrixError
from conformance.matrix.stack import DEFAULT_STACK
from conformance.model.exit_code import ExitCode
from conformance.model.record import RecordFileError
from conformance.run.record_file import ReportFolderError

if TYPE_CHECKING:
    from conformance.run.lane_run import LaneRun

LANE_RUN: Final[pytest.StashKey[LaneRun]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "DeepSpeed conformance")
    add = group.addoption
    add("--lane", metavar="NAME", help="run the conformance cells of this lane, e.g. linux_gloo")
    add("--transport", metavar="NAME", help="what carries collectives; default: the lane's first")
    add("--stack", metavar="NAME", default=DEFAULT_STACK, help="the stack that is installed here (default: pinned)")
    add("--integration", metavar="NAME", action="append", help="what is driven; repeatable (default: reference)")
    add("--suite", metavar="NAME", action="append", default=[], help="only this suite; repeatable")
    add("--cell", metavar="GLOB", action="append", default=[], help="only cells with such ids (* and ?); repeatable")
    add("--profile", metavar="NAME", default="full", help="full (default), cases or smoke")
    add("--no-known-issues", action="store_true", help="leave known issues aside: a failure is a failure")
    add("--shard", metavar="I/N", default="1/1", help="part I of N, balanced by recorded durations")
    add("--ranks", metavar="MODE", default="auto", help="auto (the lane's way), forked, cold or prewarmed")
    add("--resume", action="store_true", help="keep the records in the report folder and run only what they lack")
    add("--list", action="store_true", dest="list_cells", help="print every selected cell id and run none")
    add("--report-folder", metavar="DIR", help="where records and reports go (default: results/LANE)")
    add("--export-checkpoints", metavar="DIR", help="leave checkpoints for other lanes in DIR/LANE")
    add("--import-checkpoints", metavar="DIR", help="load the checkpoints that other lanes have left in DIR")
    add("--suites-folder", metavar="DIR", help="take the checks of suites from here")
    add("--matrices", metavar="DIR", help="read lanes, suites, rules, stacks and known issues from here")
    add("--host-class", metavar="NAME", help="what you call this kind of host, for the records")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Spread a lane run over workers, and turn its usage errors into exit code 2, with a plain message."""
    if config.getoption("lane") is None:
        return (yield)
    _spread(config)
    try:
        code = yield
    except pytest.UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(ExitCode.USAGE)
    if code == pytest.ExitCode.USAGE_ERROR:
        return int(ExitCode.USAGE)
    if code == pytest.ExitCode.INTERNAL_ERROR:
        return int(ExitCode.HARNESS)
    return code


def _spread(config: pytest.Config) -> None:
    """Have xdist, where it is there, ask for the number of workers that suits the run, unless its user has said one."""
    said = config.getoption("numprocesses", 0) is not None or config.option.tx or config.option.dist != "no"
    if not said and not config.option.distload and not hasattr(config, "workerinput"):
        config.option.numprocesses = "auto"


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """What `-n auto` means for a lane run."""
    if config.getoption("lane") is None or os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    return _lane_run(config).workers()


def _lane_run(config: pytest.Config) -> LaneRun:
    """The run that the options ask for; prepared once.

    Raises:
        pytest.UsageError: one is wrong.
    """
    # Only a lane run pays for these: the harness's own tests load this plugin too.
    from conformance.run.lane_run import LaneRun
    from conformance.run.options import read_options

    if LANE_RUN not in config.stash:
        try:
            config.stash[LANE_RUN] = LaneRun.prepare(config, read_options(config.getoption))
        except (MatrixError, RecordFileError) as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[LANE_RUN]


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Behind pytest's own plugins, so that its terminal reporter is there to be taken out: a run has one voice."""
    if config.getoption("lane") is None:
        return
    if not __debug__:
        raise pytest.UsageError(
            "Python leaves out assert statements (-O or PYTHONOPTIMIZE), with which checks judge; run it without"
        )
    from conformance.run.controller import Controller

    run = _lane_run(config)
    try:
        controller = None if hasattr(config, "workerinput") else Controller(config, run)
    except ReportFolderError as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(run, "conformance-lane-run")
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        config.pluginmanager.unregister(reporter)
    if controller is not None:
        config.pluginmanager.register(controller, "conformance-controller")
