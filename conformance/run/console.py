"""What the user sees while a lane runs: a live matrix on a terminal, plain lines in a log."""

from __future__ import annotations

import io
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from conformance.model.cut import cut
from conformance.model.record import Record
from conformance.model.verdict import UNEXPECTED, Verdict

STYLES = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.CRASH: "bold red",
    Verdict.TIMEOUT: "bold red",
    Verdict.ERROR: "bold magenta",
    Verdict.XPASS: "bold yellow",
    Verdict.XFAIL: "yellow",
    Verdict.UNSUPPORTED: "cyan",
    Verdict.NOT_RUN: "bright_black",
    Verdict.NO_DATA: "bright_black",
}
PLAIN_EVERY = 10.0
"""Seconds between progress lines where there is no terminal."""
SLOWEST = 10
REASON_HEAD, REASON_TAIL = 120, 160
"""Characters of a reason that are shown."""


class _Unheard(RichConsole):
    """Goes on when its reader has left, as `head` does: a run is for its records."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Console:
    """The run's voice. Nothing here decides anything."""

    def __init__(self, *, quiet: bool) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # A cp1252 console must not end a run.
        self._rich = _Unheard(highlight=False, soft_wrap=True)
        self._quiet = quiet
        self._live: Live | None = None
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("ETA"),
            TimeRemainingColumn(), console=self._rich, auto_refresh=False,
        )  # fmt: skip
        self._task = self._progress.add_task("cells", total=None)
        self._counts: dict[str, Counter[Verdict]] = {}
        self._done = 0
        self._total = 0
        self._started = time.monotonic()
        self._said = self._started

    def say(self, text: str) -> None:
        """One line, always shown."""
        self._rich.print(escape(text))

    def begin(self, title: str, total: int) -> None:
        """Cells are known; ranks start."""
        if self._quiet:
            return
        self._total = total
        self.say(f"{title}: {total} cells")
        self._progress.update(self._task, total=total)
        if self._rich.is_terminal and not self._rich.is_dumb_terminal:
            self._live = Live(self._picture(), console=self._rich, auto_refresh=False, transient=True)
            self._live.start()

    def cell(self, record: Record) -> None:
        """A cell ended."""
        self._done += 1
        self._counts.setdefault(record.suite, Counter())[record.verdict] += 1
        self._progress.update(self._task, completed=self._done, description=record.suite)
        if record.verdict in UNEXPECTED or record.verdict is Verdict.ERROR:
            self._rich.print(f"[{STYLES[record.verdict]}]{record.verdict:8}[/] {escape(record.cell)}")
            self._rich.print(f"         {escape(_short(record.reason))}")
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
        elif time.monotonic() - self._said >= PLAIN_EVERY or self._done == self._total:
            self._said = time.monotonic()
            spent = self._said - self._started
            left = spent / self._done * (self._total - self._done)
            self.say(f"{self._done}/{self._total} cells, {spent:.0f} s, about {left:.0f} s left ({record.suite})")

    def end(self, records: Sequence[Record], *, partial: str | None, seconds: float) -> None:
        """The summary of a run.

        Args:
            partial: why not everything that was planned ran.
        """
        if self._live is not None:
            self._live.stop()
        if self._quiet:
            return
        self._rich.print(_summary(records))
        spent: dict[str, float] = {}
        for record in records:
            spent[record.suite] = spent.get(record.suite, 0.0) + record.seconds
        if records:
            self.say("seconds by suite: " + ", ".join(f"{suite} {took:.0f}" for suite, took in spent.items()))
            self.say("slowest cells:")
            for record in sorted(records, key=lambda record: -record.seconds)[:SLOWEST]:
                if record.seconds >= 0.1:
                    self.say(f"  {record.seconds:6.1f} s  {record.cell}")
        lacks = Counter((record.reason, record.remedy or "") for record in records if record.verdict is Verdict.NOT_RUN)
        for (reason, remedy), count in lacks.most_common():
            self.say(f"not run: {count} cells: {reason}; {remedy}")
        if partial:
            self.say(f"PARTIAL: {partial}")
        self.say(f"{len(records)} cells in {seconds:.0f} s")

    def _picture(self) -> Group:
        verdicts = [verdict for verdict in Verdict if any(counts[verdict] for counts in self._counts.values())]
        return Group(_table(self._counts, verdicts), self._progress)


def _summary(records: Sequence[Record]) -> Table:
    counts: dict[str, Counter[Verdict]] = {}
    for record in records:
        counts.setdefault(record.suite, Counter())[record.verdict] += 1
    total = Counter(record.verdict for record in records)
    verdicts = [verdict for verdict in Verdict if total[verdict]]
    return _table({**counts, "all": total}, verdicts)


def _table(counts: dict[str, Counter[Verdict]], verdicts: Sequence[Verdict]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("suite")
    for verdict in verdicts:
        table.add_column(verdict.value, justify="right", style=STYLES[verdict], min_width=len(verdict.value))
    table.add_column("cells", justify="right")
    for suite, by_verdict in counts.items():
        numbers = [str(by_verdict[verdict]) if by_verdict[verdict] else "" for verdict in verdicts]
        table.add_row(suite, *numbers, str(by_verdict.total()))
    return table


def _short(reason: str) -> str:
    return cut(" ".join(reason.split()), REASON_HEAD, REASON_TAIL)
