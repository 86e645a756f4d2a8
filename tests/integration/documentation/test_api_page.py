# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/api.md are run, and what they show after ``# ->`` is what they give."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import ttmem
from support.command_line import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text()
EXAMPLES = re.findall(r"^#+ (?P<head>[^\n]+)$|^```python\n(?P<code>.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def _cases() -> list[Any]:
    found, head, number = [], "", 0
    for title, code in EXAMPLES:
        if title:
            head, number = title, 0
        else:
            number += 1
            marks = [pytest.mark.oracle] if code.startswith("# needs ttnn") else []
            found.append(pytest.param(code, id=f"{head} {number}", marks=marks))
    return found


@pytest.mark.parametrize("code", _cases())
def test_an_example_gives_what_it_shows(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if code.startswith("# needs ttnn"):
        _need_ttnn()
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    lines = code.splitlines()
    shown = 0
    for node in ast.parse(code).body:
        _, arrow, wanted = lines[(node.end_lineno or 0) - 1].partition("  # -> ")
        if arrow:
            assert isinstance(node, ast.Expr), "only expressions show something"
            value = eval(compile(ast.Expression(node.value), "api.md", "eval"), names)
            assert repr(value) == wanted
            shown += 1
        else:
            exec(compile(ast.Module([node], []), "api.md", "exec"), names)
    assert shown, "an example that shows nothing proves nothing"


def _need_ttnn() -> None:
    from ttmem.engines.interpreters import find_interpreter

    try:
        found = find_interpreter(None)
    except ttmem.TtmemError as error:
        pytest.skip(f"THE REAL TTNN WAS NOT ASKED: {error}")
    if not found.pytest_version:
        pytest.skip(f"no pytest beside ttnn in {found.path}")


def test_every_call_is_on_the_page_with_an_example() -> None:
    for name in set(ttmem.__all__) - {"Profile", "TtmemError", "__version__"}:
        assert f"| `ttmem.{name}(" in PAGE, f"the table leaves out {name}"
        assert any(f"ttmem.{name}(" in code for _, code in EXAMPLES), f"no example calls {name}"
        assert getattr(ttmem, name).__doc__
