# SPDX-License-Identifier: Apache-2.0
"""A run that another reason than memory ended fits, and every report names that reason."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import call, environment
from support.page import blocks
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.run_script import RunSettings, run_script
from ttmem.profile.model import Profile
from ttmem.reports import profile_files, profile_text

pytestmark = pytest.mark.oracle

ENDED = "the script ended with AssertionError at script.py:7 (not memory)"


HEAD = """\
import ttnn

device = ttnn.open_device(device_id=0)
x = ttnn.ones((1024, 1024), layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
"""


@pytest.fixture
def run(with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Profile]:
    """Run a script with these lines below the head on a mock n150."""
    monkeypatch.chdir(tmp_path)

    def captured(body: str) -> Profile:
        Path("script.py").write_text(HEAD + textwrap.dedent(body))
        return run_script("script.py", settings=RunSettings(board="n150"), output=2).profile

    return captured


@pytest.fixture
def asserted(run: Callable[[str], Profile]) -> Profile:
    """A script whose tensors fit and whose own assertion fails."""
    return run("""\
        y = ttnn.gelu(x)
        expected = 3
        assert expected == 4, "three layers, four caches"
    """)


def test_the_terminal_names_the_error_and_shows_its_message(asserted: Profile) -> None:
    text = profile_text.render_terminal(asserted, width=120)
    assert f"Fits as far as it ran; {ENDED}\n" in text
    assert "three layers, four caches" in text
    assert "No known memory failure" not in text
    assert "Failed" not in text


def test_the_report_for_agents_names_the_error(asserted: Profile) -> None:
    section = profile_text.render_markdown(asserted).split("## Failure\n")[1]
    assert f"- Fits as far as it ran; {ENDED}\n" in section
    assert "- Message: AssertionError: three layers, four caches\n" in section
    assert "No known memory failure" not in section


def test_the_page_says_yes_and_names_the_error(asserted: Profile) -> None:
    header = blocks(profile_files.render_html(asserted))[0].header
    assert header["ended"] == ENDED
    assert header["failure"]["fits"]
    assert "three layers, four caches" in header["failure"]["message"]
    assert header["failure"]["headline"] == ""
    assert header["fullest"] == "L1"


def test_the_store_lists_the_error(asserted: Profile) -> None:
    assert profile_files.list_facts(asserted)["status"] == "AssertionError (not memory)"


def test_an_end_without_a_text_is_reported_too(run: Callable[[str], Profile]) -> None:
    profile = run("raise SystemExit(3)\n")
    text = profile_text.render_terminal(profile, width=120)
    assert "Fits as far as it ran; the script ended with SystemExit at script.py:5 (not memory)\nSystemExit: 3" in text
    assert "SystemExit: 3" in profile_text.render_markdown(profile).split("## Failure\n")[1]
    assert blocks(profile_files.render_html(profile))[0].header["failure"]["message"] == "SystemExit: 3"


def test_a_memory_failure_that_was_caught_is_named(run: Callable[[str], Profile]) -> None:
    profile = run("""\
        try:
            ttnn.ones((64, 8192, 8192), layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
        except RuntimeError:
            pass
        y = ttnn.gelu(x)
        raise ValueError("no such layer")
    """)
    ended = "the script ended with ValueError at script.py:10 (not memory)"
    text = " ".join(profile_text.render_terminal(profile, width=200).split())
    assert f"The program caught a memory failure (oom/too-big in L1); {ended}" in text
    assert "Fits as far as it ran" not in text
    assert blocks(profile_files.render_html(profile))[0].header["caught"]


def test_a_suite_with_a_test_that_did_not_fit_does_not_fit(with_ttnn: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(
        textwrap.dedent("""\
            import ttnn

            def test_too_big(device):
                ttnn.ones((64, 8192, 8192), layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)

            def test_small(device):
                ttnn.ones((64, 64), layout=ttnn.TILE_LAYOUT, device=device)
        """)
    )
    home = str(tmp_path / "home")
    env = environment(TTMEM_HOME=home, TTMEM_TTNN_PYTHON=with_ttnn.path)
    done = call("test", "test_two.py", "--board", "n150", "--name", "two", "-q", env=env, cwd=tmp_path)
    assert done.code == 1, done.err
    listed = json.loads(call("reports", "--json", env=env).out)["reports"]
    assert [(one["name"], one["status"]) for one in listed] == [("two", "oom/too-big in L1")]
