"""The tree that Sphinx reads: the pages of docs/, and those that are made from matrices/ and from records."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from docs.pages import all_pages, badges, feature, ground, issue, rule, windows
from docs.published import Published

DOCS: Final = Path(__file__).resolve().parent
ROOT: Final = DOCS.parent
TAKEN_IN: Final = ("CHANGELOG.md", "CONTRIBUTING.md", "examples/train.py", "examples/zero3.py")
"""Files outside of docs/ that pages take in."""


def write(published: Published, into: Path) -> Path:
    """Write the tree, laid out as the repository is; the folder that Sphinx starts from."""
    shutil.rmtree(into, ignore_errors=True)
    docs = into / DOCS.name
    for path in (*DOCS.rglob("*.md"), *(DOCS / "images").iterdir()):
        _copy(path, docs / path.relative_to(DOCS))
    for name in TAKEN_IN:
        _copy(ROOT / name, into / name)
    for page in all_pages(published):
        _write(docs / f"{page.path}.md", page.source)
    for name, text in parts(published).items():
        _write(docs / "made" / f"{name}.txt", text + "\n")
    return docs


def parts(published: Published) -> dict[str, str]:
    """What is made from the records and stands within a page that is written by hand, by its name."""
    return {
        "badges": badges.table_of(published),
        "ground": ground.caveat(published),
        "features": feature.overview(published),
        "known-issues": issue.overview(published),
        "rules": rule.overview(published),
        "windows-answers": windows.answers(published),
        "windows-issues": windows.issues(published),
    }


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
