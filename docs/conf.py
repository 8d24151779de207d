"""Sphinx's configuration. `python -m docs` builds; warnings are errors there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.nodes import Node, system_message
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import conformance  # noqa: E402
from docs import address, from_code  # noqa: E402

project = "DeepSpeed conformance"
version = release = conformance.__version__
language = "en"
smartquotes = False  # "--ranks" is two hyphens.

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
default_role = "literal"  # Docstrings put code in single backticks.
autodoc_member_order = "bysource"
napoleon_use_ivar = True
exclude_patterns = ["**/__pycache__"]

html_theme = "furo"
html_title = project
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_baseurl = address.site()
html_context = {"repository": address.repository()}
html_use_index = False
html_domain_indices = False
html_show_copyright = False
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "report.html",
        "sidebar/navigation.html",
        "links.html",
        "sidebar/scroll-end.html",
    ]
}


class FromCode(SphinxDirective):
    """```` ```{from-code} options ````: a part of the reference that `docs.from_code` makes."""

    required_arguments = 1
    has_content: ClassVar[bool] = False

    def run(self) -> list[Node]:
        text = from_code.PARTS[self.arguments[0]]()
        return self.parse_text_to_nodes(text, allow_section_headings=True)


class SiteFile(SphinxRole):
    """`` {site}`text <data/records.jsonl.gz>` ``: a link to a file that is no page, from a page at any depth."""

    folder = ""

    def run(self) -> tuple[list[Node], list[system_message]]:
        title, _, target = self.text.partition("<")
        up = "../" * self.env.docname.count("/")
        target = up + self.folder + target.rstrip(">")
        return [nodes.reference(self.rawtext, title.strip(), refuri=target, internal=True)], []


class Report(SiteFile):
    """`` {report}`text <#fragment>` ``: a link to the published report."""

    folder = "report/index.html"


class Repository(SphinxRole):
    """`` {repository}`text` ``: a link to the repository, where its address is known."""

    def run(self) -> tuple[list[Node], list[system_message]]:
        known = address.repository()
        node = nodes.reference(self.rawtext, self.text, refuri=known) if known else nodes.inline("", self.text)
        return [node], []


class Clone(SphinxDirective):
    """```` ```{clone} ````: the commands that bring the repository into a folder."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[Node]:
        known = address.repository()
        text = f"git clone {known}.git conformance\ncd conformance" if known else "cd conformance"
        return [nodes.literal_block(text, text, language="sh")]


def add_to_head(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Node | None) -> None:
    """Name the feed in every page; give the page for addresses that lead nowhere, shown at any depth, its base."""
    feed = context["pathto"]("feed.xml", 1)
    told = f'<link rel="alternate" type="application/atom+xml" title="What changed" href="{feed}">'
    base = f'<base href="{address.site()}">' if page == "404" and address.site() else ""
    context["metatags"] = base + context.get("metatags", "") + told
    if page == "404":
        context["pageurl"] = None


def setup(app: Sphinx) -> dict[str, Any]:
    """What is not configuration: the reference made from the code, links to what is no page, and every page's head."""
    app.add_directive("clone", Clone)
    app.add_directive("from-code", FromCode)
    app.add_role("site", SiteFile())
    app.add_role("report", Report())
    app.add_role("repository", Repository())
    app.connect("html-page-context", add_to_head)
    return {"parallel_read_safe": True}
