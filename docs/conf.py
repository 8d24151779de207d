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
from docs import from_code  # noqa: E402

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


class Report(SphinxRole):
    """`` {report}`text <fragment>` ``: a link to the published report, from a page at any depth."""

    def run(self) -> tuple[list[Node], list[system_message]]:
        title, _, fragment = self.text.partition("<")
        here = self.env.docname.count("/")
        target = "../" * here + "report/index.html" + fragment.rstrip(">")
        return [nodes.reference(self.rawtext, title.strip(), refuri=target, internal=True)], []


def setup(app: Sphinx) -> dict[str, Any]:
    """What is not configuration: the reference made from the code, and links to the report."""
    app.add_directive("from-code", FromCode)
    app.add_role("report", Report())
    return {"parallel_read_safe": True}
