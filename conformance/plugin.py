"""The pytest plugin: options, cells as test items, and the way from items to records."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

from conformance.matrix import MatrixError
from conformance.matrix.stack import DEFAULT_STACK
from conformance.model.exit_code import ExitCode
from conformance.model.record import RecordFileError
from conformance.run.record_file import ReportFolderError


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
    """Turn a lane run's usage errors into exit code 2, with a plain message."""
    if config.getoption("lane") is None:
        return (yield)
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


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Behind pytest's own plugins, so that its terminal reporter is there to be taken out: a run has one voice."""
    if config.getoption("lane") is None:
        return
    if not __debug__:
        raise pytest.UsageError(
            "Python leaves out assert statements (-O or PYTHONOPTIMIZE), with which checks judge; run it without"
        )
    # Only a lane run pays for these: the harness's own tests load this plugin too.
    from conformance.run.controller import Controller
    from conformance.run.lane_run import LaneRun
    from conformance.run.options import read_options

    try:
        run = LaneRun.prepare(config, read_options(config.getoption))
        controller = None if hasattr(config, "workerinput") else Controller(config, run)
    except (MatrixError, ReportFolderError, RecordFileError) as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(run, "conformance-lane-run")
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        config.pluginmanager.unregister(reporter)
    if controller is not None:
        config.pluginmanager.register(controller, "conformance-controller")
