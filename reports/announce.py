"""Keeping one issue on GitHub that says what newly fails: opened, updated, and closed when nothing does any more."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence

from reports.compare import Difference
from reports.formats.markdown import code, escape
from reports.words import plural

LABEL = "newly-failing"
TITLE = "Cells newly fail"
LONGEST = 150
"""How many cells the issue lists; GitHub takes 65,536 characters."""

Gh = Callable[[Sequence[str], str], str]
"""Runs GitHub's command line program with arguments and standard input; what it prints."""


class AnnounceError(Exception):
    """GitHub could not be told; says what was tried and what came back."""


def gh(arguments: Sequence[str], given: str) -> str:
    """Run `gh`, which takes its token from GH_TOKEN.

    Raises:
        AnnounceError: it is not there, or it failed.
    """
    words = ["gh", *arguments]
    try:
        done = subprocess.run(words, input=given, capture_output=True, encoding="utf-8", timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        raise AnnounceError(f"{' '.join(words)}: {error}; install GitHub's gh, or leave --repository out") from None
    if done.returncode != 0:
        raise AnnounceError(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def announce(differences: Sequence[Difference], repository: str, *, run_url: str = "", gh: Gh = gh) -> str:
    """Make the issue say what newly fails now.

    Args:
        differences: all changes; only those for the worse are told.
        repository: `owner/name`.
        run_url: where the run can be looked at.

    Returns:
        What was done, in a few words.

    Raises:
        AnnounceError: see `gh`.
    """
    where = ["--repo", repository]
    worse = [difference for difference in differences if difference.regression]
    asked = ["issue", "list", *where, "--label", LABEL, "--state", "open", "--limit", "1", "--json", "number,body"]
    found = json.loads(gh(asked, ""))
    text = body(worse)
    footer = f"\nSeen in {run_url}\n" if run_url else ""
    if not found and not worse:
        return "nothing newly fails, and no issue is open"
    if not found:
        gh(["label", "create", LABEL, *where, "--force", "--description", "Cells that passed before"], "")
        url = gh(["issue", "create", *where, "--title", TITLE, "--label", LABEL, "--body-file", "-"], text + footer)
        return f"opened {url.strip()}"
    number = str(found[0]["number"])
    if not worse:
        gh(["issue", "close", number, *where, "--comment", f"Nothing newly fails any more.\n{footer}"], "")
        return f"closed issue {number}"
    if found[0]["body"].replace("\r\n", "\n").startswith(text):
        return f"issue {number} says so already"
    gh(["issue", "edit", number, *where, "--body-file", "-"], text + footer)
    # An edit tells nobody; a comment does.
    gh(["issue", "comment", number, *where, "--body-file", "-"], f"{summary(worse)} The list is above.\n{footer}")
    return f"updated issue {number}"


def summary(worse: Sequence[Difference]) -> str:
    """`3 cells are worse than in the published records.`"""
    return f"{plural(len(worse), 'cell')} {'is' if len(worse) == 1 else 'are'} worse than in the published records."


def body(worse: Sequence[Difference]) -> str:
    """The issue's text: the same for the same cells, verdicts and reasons."""
    lines = [summary(worse), ""]
    lines += [_line(difference) for difference in worse[:LONGEST]]
    if len(worse) > LONGEST:
        lines.append(f"- … and {len(worse) - LONGEST:,} more")
    lines += ["", "Mend it, write a known issue, or publish the new records if the change is right."]
    return "\n".join(lines) + "\n"


def _line(difference: Difference) -> str:
    before, after = (slot.verdict.value if slot else "absent" for slot in (difference.before, difference.after))
    reason = escape(difference.after.reason) if difference.after else ""
    line = f"- {code(difference.cell)} on {escape(difference.column)}: {escape(f'{before} → {after}')}"
    return line + (f": {reason}" if reason else "")
