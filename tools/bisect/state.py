"""What a bisect has found so far, in a file, so that an interrupted one goes on."""

from __future__ import annotations

from pathlib import Path

import pydantic

from conformance.model.record import Frozen
from tools.bisect.answer import Answer
from tools.bisect.errors import BisectError
from tools.bisect.question import Question


class _Content(Frozen):
    question: Question
    answers: tuple[Answer, ...] = ()


class State:
    """The answers to a question, each on disk as soon as it is known."""

    def __init__(self, path: Path, question: Question, *, fresh: bool) -> None:
        """Take up the answers in `path` if they are to this very question.

        Args:
            fresh: forget them.

        Raises:
            BisectError: the file holds something else, or cannot be read.
        """
        self.path = path
        self.question = question
        self.answers: dict[str, Answer] = {}
        if not fresh and path.exists():
            try:
                content = _Content.model_validate_json(path.read_bytes())
            except (OSError, pydantic.ValidationError) as error:
                raise BisectError(
                    f"{path}: holds no state of a bisect ({type(error).__name__}); start anew with --fresh"
                ) from None
            if content.question == question:
                self.answers = {answer.release: answer for answer in content.answers}

    def add(self, answer: Answer) -> None:
        """Keep an answer in place of an earlier one for the same release.

        Raises:
            OSError: the file cannot be written.
        """
        self.answers[answer.release] = answer
        content = _Content(question=self.question, answers=tuple(self.answers.values()))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(f"{self.path.name}.partial")
        partial.write_text(content.model_dump_json(indent=1) + "\n", encoding="utf-8")
        partial.replace(self.path)  # A write that is interrupted leaves the old file whole.
