# SPDX-License-Identifier: Apache-2.0
"""Links and anchors of the documentation resolve, on the site too; every page is in the navigation and in the index."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from support.command_line import ROOT

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
_CODE = re.compile(r"^( *)```.*?^\1```$|(`+)(?!`).+?(?<!`)\2(?!`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?P<target>[^()\s#]*)(?:#(?P<anchor>[^()\s]+))?\)")


@cache
def _headings(page: Path) -> list[str]:
    return re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )


@cache
def _anchors(page: Path) -> set[str]:
    """Anchors that GitHub and the site both make of the headings of a page."""
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in _headings(page)]
    return {re.sub(r"\s", "-", text) for text in plain} & {re.sub(r"[-\s]+", "-", text) for text in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_resolves(page: Path) -> None:
    broken = []
    for link in _LINK.finditer(_CODE.sub("", page.read_text())):
        if "://" in link["target"]:
            continue
        target = (page.parent / link["target"]).resolve() if link["target"] else page
        if not target.exists() or (link["anchor"] and link["anchor"] not in _anchors(target)):
            broken.append(link[0])
        elif DOCS in page.parents and DOCS not in target.parents:
            broken.append(f"{link[0]}: the site holds docs/ alone")
        elif DOCS in page.parents and target.is_dir():
            broken.append(f"{link[0]}: name a page of the folder")
    assert broken == []


def test_every_page_is_in_the_navigation_and_in_the_index() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert sorted(re.findall(r": ([\w/.-]+\.md)$", navigation, re.MULTILINE)) == sorted(pages)
    index = set(re.findall(r"\]\(([\w/.-]+\.md)\)", (DOCS / "README.md").read_text()))
    assert index == pages - {"README.md"}
