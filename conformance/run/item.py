"""A cell as a pytest item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance.model.planned_cell import PlannedCell
from conformance.model.record import Record, to_line
from conformance.model.verdict import UNEXPECTED, Verdict

RECORD_PROPERTY = "conformance_record"
"""The user property of an item's report that carries the record."""


class UnexpectedVerdict(Exception):
    """What an item fails with: the verdict, its reason, and the command that repeats the cell."""


class CellItem(pytest.Item):
    """One planned cell; running it leaves its record with the item's report.

    Args:
        planned: what to run.
        answer: runs it, and gives the record.
    """

    def __init__(
        self, *, planned: PlannedCell, answer: Callable[[CellItem], Record], name: str, parent: pytest.Session
    ) -> None:
        super().__init__(name, parent, nodeid=name)
        self.planned = planned
        self.answer = answer

    @classmethod
    def of(cls, planned: PlannedCell, answer: Callable[[CellItem], Record], parent: pytest.Session) -> CellItem:
        """The item of a planned cell."""
        made: CellItem = cls.from_parent(parent, name=planned.name, planned=planned, answer=answer)
        return made

    def runtest(self) -> None:
        """Run the cell, and tell pytest what it came to."""
        record = self.answer(self)
        self.user_properties.append((RECORD_PROPERTY, to_line(record)))
        if record.verdict in UNEXPECTED or record.verdict is Verdict.ERROR:
            raise UnexpectedVerdict(f"{record.verdict}: {record.reason}\nrepeat: {record.repeat}")
        if record.verdict is Verdict.XFAIL:
            pytest.xfail(record.reason)
        if record.verdict in (Verdict.NOT_RUN, Verdict.UNSUPPORTED):
            pytest.skip(f"{record.verdict}: {record.reason}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """An unexpected verdict without a traceback of this file."""
        if isinstance(excinfo.value, UnexpectedVerdict):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, int | None, str]:
        """Where the cell's check is."""
        case = self.planned.case
        if case is None:
            return "", None, self.name
        code = case.check.__code__
        return code.co_filename, code.co_firstlineno - 1, self.name
