# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md describes today's tree: its paths exist, and a reserved type name has one definition."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

import pytest

from support.command_line import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
SOURCE = ROOT / "src" / "ttmem"
_ROWS = re.findall(r"^\| (?P<types>`[A-Z]\w+`(?:, `[A-Z]\w+`)*) \| `(?P<module>[a-z_.]+)` \|$", PAGE, re.MULTILINE)
RESERVED = {name: module for types, module in _ROWS for name in re.findall(r"\w+", types)}
"""Module by reserved type name, from the page's table."""


def _section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.fixture(scope="module")
def definitions() -> dict[str, list[str]]:
    """Modules that define a class, by its name without leading underscores."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in SOURCE.rglob("*.py"):
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(module)
    return found


def test_the_table_of_reserved_types_was_read() -> None:
    assert len(RESERVED) >= 40


@pytest.mark.parametrize("name", RESERVED)
def test_a_reserved_type_is_defined_once(name: str, definitions: dict[str, list[str]]) -> None:
    assert definitions.get(name) == [RESERVED[name]], (
        f"'{name}' is reserved for {RESERVED[name]} (docs/architecture.md, Glossary): give the other type a longer name"
    )


def test_every_room_has_its_row() -> None:
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    rows = re.findall(r"^\| ((?:`[\w/]+/`(?:, )?)+) \|", _section("The rooms"), re.MULTILINE)
    assert {name.rstrip("/") for row in rows for name in re.findall(r"`([\w/]+)`", row)} == rooms | {"engines/worker"}


def test_every_path_exists() -> None:
    rows = [row for row in _section("Where is ...?").splitlines() if row.startswith("| ")][1:]
    assert 1 <= len(rows) <= 20, "names should answer the rest"
    paths = [path for row in rows for path in re.findall(r"`([\w./-]+/[\w./-]*)`", row)]
    missing = [path for path in paths if not (SOURCE / path).exists() and not (ROOT / path).exists()]
    assert missing == []
