"""Building the site: pages from records and guides, the report, data to take away, and every link followed."""

from __future__ import annotations

import argparse
import shutil
import sys
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sphinx.cmd.build import main as sphinx

import reports
from docs import address, sitemap, source
from docs.links import broken_links
from docs.picture import PICTURE, PictureError, take_picture
from docs.published import Published
from reports import download
from reports.formats import atom
from reports.news import news
from reports.past_runs import of_matrix
from reports.writing import write_text

DOCS: Final = Path(__file__).resolve().parent
ROOT: Final = DOCS.parent
REPORT: Final = "report"
DATA: Final = "data"
FEED: Final = "feed.xml"
OK, WRONG, USAGE = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    """Build the site as `arguments` say; its exit code."""
    options = _parser().parse_args(arguments)
    site: Path = options.into.resolve()
    try:
        at = address.site()
        published = Published.read(options.records)
        shutil.rmtree(site, ignore_errors=True)
        _write_data(published, site, at)
        if options.picture:
            print(take_picture(site / REPORT / "index.html"))
    except (ValueError, reports.SourceError, reports.WriteError, PictureError) as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    tree = source.write(published, site.parent / f".{site.name}-source")
    pages = [
        "--fail-on-warning",
        "--keep-going",
        "--fresh-env",
        "--quiet",
        "--builder",
        "html",
        "--conf-dir",
        str(DOCS),
    ]
    if sphinx([*pages, "--doctree-dir", str(site.parent / f".{site.name}-trees"), str(tree), str(site)]) != OK:
        return WRONG
    if at:
        (site / sitemap.NAME).write_text(sitemap.render(site, at), encoding="utf-8")
    broken = broken_links(site)
    for link in broken:
        print(f"broken link: {link}", file=sys.stderr)
    print(site / "index.html")
    return WRONG if broken else OK


def _write_data(published: Published, site: Path, at: str) -> None:
    """All that is not a page: the report in its formats, the records, and the feed."""
    results, past = published.results, published.past
    history = [run.as_past() for run in past]
    reports.write_matrix(results, site / REPORT, history=history, links=_links_of_report())
    download.write(site / DATA, published.sources.records, published.sources.headers, past)
    feed = atom.render(
        news([*past, *of_matrix(results)]),
        built=results.built,
        feed=at and at + FEED,
        page=at and f"{at}{REPORT}/index.html",
    )
    write_text(site / FEED, feed)


def _links_of_report() -> dict[str, str]:
    """From the report back to the site, and to the repository where its address is known."""
    known = address.repository()
    title = urllib.parse.quote("Error in the report")
    outside = {"Repository": known, "Report an error": f"{known}/issues/new?title={title}"} if known else {}
    return {"Guides": "../index.html", **outside}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m docs",
        description="Builds the site.",
        epilog="exit codes: 0 all well; 1 a warning, or a link to nowhere; 2 wrong usage, no record, no browser. "
        f"The variable {address.SITE} holds the address that the site will be at; on GitHub it need not be set",
    )
    parser.add_argument(
        "--records",
        nargs="+",
        type=Path,
        default=[ROOT / "reports" / "published"],
        metavar="RECORDS",
        help="what the site is made of, the newest of each lane (default: reports/published)",
    )
    parser.add_argument(
        "--into", type=Path, default=ROOT / "build" / "docs", metavar="DIR", help="made anew (default: build/docs)"
    )
    shown = PICTURE.relative_to(ROOT).as_posix()
    parser.add_argument(
        "--picture", action="store_true", help=f"take the README's picture of the report anew: {shown}; needs Chromium"
    )
    return parser
