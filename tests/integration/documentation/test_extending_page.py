# SPDX-License-Identifier: Apache-2.0
"""The worked examples of docs/extending.md, done for real: on a copy of the source, with their own tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import ROOT

PAGE = (ROOT / "docs" / "extending.md").read_text()
SECTIONS = {
    section.partition("\n")[0]: section for section in re.split(r"^## ", PAGE, flags=re.MULTILINE) if "```" in section
}
FILE = re.compile(r'^```(?P<kind>\w+) title="(?P<path>[^"]+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = {name: f'"{sys.executable}" -m {name}' for name in ("ttmem", "pytest", "python")}
LEFT_BEHIND = shutil.ignore_patterns("__pycache__", ".*", "*.so")


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS.values(), ids=SECTIONS)
def test_the_example_works_as_it_stands(section: str, tmp_path: Path) -> None:
    # GIVEN the source with what the example adds: a new file, more at the end of a file, or changed lines
    for folder in ("src", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=LEFT_BEHIND)
    for entry in ("docs", "tools", "bench", "pyproject.toml"):
        (tmp_path / entry).symlink_to(ROOT / entry)
    for block in FILE.finditer(section):
        path = tmp_path / block["path"]
        if block["kind"] == "diff":
            path.write_text(_apply(block["text"], path.read_text()))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(block["text"])
    # WHEN its commands are typed
    shown = [(line, wanted) for block in CONSOLE.finditer(section) for line, wanted in _commands(block["text"])]
    assert shown, "an example that shows nothing proves nothing"
    for line, wanted in shown:
        done = subprocess.run(
            re.sub(r"^\w+", lambda word: PROGRAMS.get(word[0], word[0]), line),
            shell=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "src"), "TTMEM_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
        # THEN they say what the page shows
        assert done.returncode == 0, f"$ {line}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        pattern = re.escape(wanted.strip()).replace(re.escape("..."), ".*")
        assert re.fullmatch(pattern, done.stdout.strip(), re.DOTALL), f"$ {line}\n{done.stdout[-3000:]}"


def _apply(diff: str, text: str) -> str:
    """The text after a diff without line numbers, whose old lines occur once."""
    old, new = ("".join(line[1:] for line in diff.splitlines(True) if line[0] in " " + sign) for sign in "-+")
    assert text.count(old) == 1, f"these lines of the page are not in the file once:\n{old}"
    return text.replace(old, new)


def _commands(text: str) -> list[tuple[str, str]]:
    """(command, what it prints) of a console."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def test_every_kind_of_addition_has_its_section() -> None:
    linked = re.findall(r"^\| \[[^\]]+\]\(#([\w-]+)\)", PAGE, re.MULTILINE)
    assert linked == [title.lower().replace(" ", "-") for title in SECTIONS]
