"""The pages that are made from matrices/ and from the published records: one for each feature, issue, rule and lane."""

from __future__ import annotations

from docs.page import Page
from docs.pages import feature, issue, lane, rule
from docs.published import Published


def all_pages(published: Published) -> list[Page]:
    """Every page, each once."""
    return [*feature.pages(published), *issue.pages(published), *rule.pages(published), *lane.pages(published)]
