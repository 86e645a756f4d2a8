# SPDX-License-Identifier: Apache-2.0
"""A run that another reason than memory ended fits, and every report names that reason."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from support.page import blocks
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.running import RunSettings, run_script
from ttmem.profile import Profile
from ttmem.reports.profile import html, markdown, stored_files, terminal

pytestmark = pytest.mark.oracle

ENDED = "the script ended with AssertionError at script.py:7 (not memory)"


@pytest.fixture
def asserted(with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """A script whose tensors fit and whose own assertion fails."""
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(
        textwrap.dedent("""\
            import ttnn

            device = ttnn.open_device(device_id=0)
            x = ttnn.ones((1024, 1024), layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
            y = ttnn.gelu(x)
            expected = 3
            assert expected == 4, "three layers, four caches"
        """)
    )
    return run_script("script.py", settings=RunSettings(board="n150"), output=2).profile


def test_the_terminal_names_the_error_and_shows_its_message(asserted: Profile) -> None:
    text = terminal.render(asserted, width=120)
    assert f"Fits as far as it ran; {ENDED}\n" in text
    assert "three layers, four caches" in text
    assert "No known memory failure" not in text
    assert "Failed" not in text


def test_the_report_for_agents_names_the_error(asserted: Profile) -> None:
    section = markdown.render(asserted).split("## Failure\n")[1]
    assert f"- Fits as far as it ran; {ENDED}\n" in section
    assert "- Message: AssertionError: three layers, four caches\n" in section
    assert "No known memory failure" not in section


def test_the_page_says_yes_and_names_the_error(asserted: Profile) -> None:
    header = blocks(html.render(asserted))[0].header
    assert header["ended"] == ENDED
    assert header["failure"]["fits"]
    assert "three layers, four caches" in header["failure"]["message"]
    assert header["failure"]["headline"] == ""
    assert header["fullest"] == "L1"


def test_the_store_lists_the_error(asserted: Profile) -> None:
    assert stored_files.facts(asserted)["status"] == "AssertionError (not memory)"
