"""Building the site: Sphinx with warnings as errors, the report beside its pages, and every link followed."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from docs.links import broken_links
from docs.picture import PICTURE, PictureError, take_picture
from reports.cli import main as reports

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
REPORT = "report"
OK, WRONG, USAGE = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    """Build the site as `arguments` say; its exit code."""
    options = _parser().parse_args(arguments)
    site: Path = options.into.resolve()
    report = site / REPORT
    shutil.rmtree(site, ignore_errors=True)
    if reports(["build", *map(str, options.records), "--newest", "--into", str(report)]) != OK:
        return USAGE
    if options.picture:
        try:
            print(take_picture(report / "index.html"))
        except PictureError as error:
            print(f"error: {error}", file=sys.stderr)
            return USAGE
    pages = ["--fail-on-warning", "--keep-going", "--fresh-env", "--quiet", "--builder", "html"]
    if sphinx([*pages, "--doctree-dir", str(site.parent / f".{site.name}-trees"), str(DOCS), str(site)]) != OK:
        return WRONG
    broken = broken_links(site)
    for link in broken:
        print(f"broken link: {link}", file=sys.stderr)
    print(site / "index.html")
    return WRONG if broken else OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m docs",
        description="Builds the site.",
        epilog="exit codes: 0 all well; 1 a warning, or a link to nowhere; 2 wrong usage, no record, no browser",
    )
    parser.add_argument(
        "--records",
        nargs="+",
        type=Path,
        default=[ROOT / "reports" / "published"],
        metavar="RECORDS",
        help="what the report is made of, the newest of each lane (default: reports/published)",
    )
    parser.add_argument(
        "--into", type=Path, default=ROOT / "build" / "docs", metavar="DIR", help="made anew (default: build/docs)"
    )
    shown = PICTURE.relative_to(ROOT).as_posix()
    parser.add_argument(
        "--picture", action="store_true", help=f"take the README's picture of the report anew: {shown}; needs Chromium"
    )
    return parser
