# SPDX-License-Identifier: Apache-2.0
"""Patches of files with names and line ends of every kind: both ``patch -p1`` and ``git apply`` take them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import ttmem
from support.captured_scripts import HEAD, Capture
from ttmem.engines.run_script import RunSettings, run_script
from ttmem.tuning.patch import format_diff

TOOLS = (["patch", "-p1", "-i"], ["git", "apply"])
NAMES = (
    "model.py",
    "sp ace.py",
    "tab\tname.py",
    "new\nline.py",
    "return\rname.py",
    "bell\x07.py",
    'quo"te.py',
    "back\\slash.py",
    'both \t" and \\.py',
    "ünï.py",
    " leading.py",
    "trailing .py",
    "fold er/model.py",
    "it's.py",
)
TEXTS = {
    "lf": ("a = 1\nb = 2\n", "a = 1\nx = 3\nb = 2\n"),
    "crlf": ("a = 1\r\nb = 2\r\n", "a = 1\r\nx = 3\r\nb = 2\r\n"),
    "cr": ("a = 1\rb = 2\r", "a = 1\rx = 3\rb = 2\r"),
    "cr without an end": ("a = 1\rb = 2", "a = 1\rx = 3\rb = 2"),
    "mixed": ("a = 1\rc = 2\nb = 2\r\n", "a = 1\rx = 3\rc = 2\nb = 2\r\n"),
    "without an end": ("a = 1\nb = 2", "a = 1\nb = 2\nx = 3"),
}


def applied(tool: list[str], folder: Path, name: str, before: str, after: str) -> bytes:
    """What the tool makes of the file."""
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(before.encode())
    (folder / "it.diff").write_bytes(format_diff(name, before, after).encode())
    subprocess.run([*tool, "it.diff"], cwd=folder, check=True, capture_output=True)
    return file.read_bytes()


@pytest.mark.parametrize("tool", TOOLS, ids=["patch", "git"])
@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name_is_patched(name: str, tool: list[str], tmp_path: Path) -> None:
    before, after = TEXTS["lf"]
    assert applied(tool, tmp_path, name, before, after) == after.encode()


@pytest.mark.parametrize("tool", TOOLS, ids=["patch", "git"])
@pytest.mark.parametrize("ends", TEXTS)
def test_a_file_with_any_line_ends_is_patched(ends: str, tool: list[str], tmp_path: Path) -> None:
    before, after = TEXTS[ends]
    assert applied(tool, tmp_path, "model.py", before, after) == after.encode()


def test_nothing_changed_is_no_patch() -> None:
    assert format_diff("model.py", "a = 1\n", "a = 1\n") == ""


@pytest.mark.oracle
@pytest.mark.usefixtures("capture")
def test_a_script_with_an_odd_name_and_line_ends_of_its_own_is_patched_and_runs(tmp_path: Path) -> None:
    # GIVEN a script with spaces and a tab in its name, whose lines end with a carriage return alone
    text = HEAD + "x = make(1, 4, 1024, 1024)\ny = ttnn.sum(x, dim=1)\nz = make(1, 4, 1024, 1024)\nz = ttnn.gelu(z)\n"
    script = Path("my scr\tipt.py")
    script.write_bytes(text.replace("\n", "\r").encode())
    profile = run_script(str(script), settings=RunSettings(measure_programs=False), output=2).profile
    what = ttmem.whatif(profile, ["free:x"])
    found = ttmem.tune(profile)
    patch = found.patch()
    assert any(edit.startswith("free:x@") for edit in patch.hunks)
    assert patch.left_out == ()
    Path("smaller.diff").write_bytes(patch.text.encode())
    for tool in TOOLS:
        script.write_bytes(text.replace("\n", "\r").encode())
        subprocess.run([*tool, "smaller.diff"], check=True, capture_output=True)
        # THEN it runs with a lower peak
        again = run_script(str(script), settings=RunSettings(measure_programs=False), output=2)
        assert again.status == 0
        assert again.profile.to_json()["memories"]["DRAM"]["peak_bytes_per_bank"] == found.after.peak("DRAM")
    assert found.after.peak("DRAM") <= what.after.peak("DRAM")


@pytest.mark.oracle
def test_a_file_outside_of_the_folder_is_named_and_left_out(
    capture: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a script next to the current folder, not below it
    capture("x = make(1, 4, 1024, 1024)\ny = ttnn.sum(x, dim=1)\nz = make(1, 4, 1024, 1024)\nz = ttnn.gelu(z)\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    profile = run_script("../script.py", settings=RunSettings(measure_programs=False), output=2).profile
    # THEN a patch with paths of the current folder cannot name it; the lines can be typed all the same
    answer = ttmem.tune(profile).document()
    assert answer.not_in_patch
    assert {one.why_not_in_patch for one in answer.edits} == {"script.py is outside of the current folder"}
    assert any(one.code for one in answer.edits)
