# SPDX-License-Identifier: Apache-2.0
"""What the tutorial and the page for agents show is what their commands print today."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from support.command_line import ROOT
from ttmem.engines.interpreters import Interpreter


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shown_output", ROOT / "tools" / "shown_output.py")
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _tool()


@pytest.mark.oracle
@pytest.mark.parametrize("page", TOOL.PAGES, ids=lambda page: page.name)
def test_a_page_shows_what_its_commands_print_today(
    page: Path, ttnn_interpreter: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp")
    monkeypatch.setenv("TTMEM_TTNN_PYTHON", ttnn_interpreter.path)
    text = page.read_text()
    assert TOOL.changed(text, TOOL.Shell(tmp_path)) == "", "run: python tools/shown_output.py"


def test_every_text_block_of_the_pages_is_generated() -> None:
    for page in TOOL.PAGES:
        text = page.read_text()
        assert text.count("```text") == len(list(TOOL._SHOWN.finditer(text))) > 0, page.name


def test_only_the_chosen_paragraphs_are_shown() -> None:
    assert TOOL.chosen("a\nb\n\nc\n\n\nd", None) == "a\nb\n\nc\n\nd\n"
    assert TOOL.chosen("a\nb\n\nc\n\nd", "1, 3") == "a\nb\n\n...\n\nd\n"
    assert TOOL.chosen("a\n\nb\n\nc", "2") == "...\n\nb\n\n...\n"
    with pytest.raises(SystemExit, match="there are 2 paragraphs"):
        TOOL.chosen("a\n\nb", "3")
