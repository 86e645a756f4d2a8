# SPDX-License-Identifier: Apache-2.0
"""Write the output that docs/tutorial.md and docs/agents.md show, from the commands and tool calls above it.

python tools/shown_output.py            # run them and write the pages
python tools/shown_output.py --check    # exit 1 when a page shows other output than today's

The text block below ``<!-- output: 1-2, 5 -->`` holds these paragraphs of what the commands or the tool call above it
print (``<!-- output -->``: all). It needs the real ttnn (``ttmem device install``); no card.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support import mcp_talk  # noqa: E402
from ttmem.base.home import home_folder  # noqa: E402

PAGES = (ROOT / "docs" / "tutorial.md", ROOT / "docs" / "agents.md")
_SHOWN = re.compile(
    r"(?:```bash\n(?P<commands>(?:(?!```)[^\n]*\n)+)```\n"
    r"|> \*\*tool call\*\* `(?P<tool>\w+)` `(?P<arguments>[^`]+)`\n)"
    r"\n<!-- output(?:: (?P<paragraphs>[\d, -]*\d-?))? -->\n\n```text\n(?P<text>.*?)```\n",
    re.DOTALL,
)
_SECONDS = re.compile(r"\b\d[\d.,]* (?:s|ms)\b")


class Shell:
    """A folder with the examples and an empty store, in which commands run one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.copytree(ROOT / "examples", folder / "examples")
        shutil.copytree(ROOT / "docs" / "examples", folder / "docs" / "examples")
        home = folder / "home"
        home.mkdir()
        for part in ("device", "torch"):
            if (home_folder() / part).exists():
                (home / part).symlink_to(home_folder() / part)
        programs = folder / "bin"
        programs.mkdir()
        start = "import sys; from ttmem.commands.program import main; sys.exit(main())"
        (programs / "ttmem").write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{start}" "$@"\n')
        (programs / "ttmem").chmod(0o755)
        changes = {"TTMEM_HOME": str(home), "COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src")}
        self._variables = {**os.environ, **changes, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def output(self, commands: str) -> str:
        """What the commands print on stdout; an answer of no (exit code 1) is an answer."""
        printed = []
        for line in commands.strip().splitlines():
            done = subprocess.run(
                ["sh", "-c", line], cwd=self._folder, env=self._variables, capture_output=True, text=True, check=False
            )
            if done.returncode not in (0, 1):
                raise SystemExit(f"'{line}' ended with status {done.returncode}:\n{done.stderr[-2000:]}")
            printed.append(done.stdout.strip("\n"))
        return "\n\n".join(printed)

    def answer(self, tool: str, arguments: str) -> str:
        """What a real client gets from a real server."""
        call = (tool, json.loads(arguments))
        talk = mcp_talk.talk(self._variables, call, folder=self._folder, words=["--root", self._folder])
        (result,) = talk["results"]
        if result["failed"]:
            raise SystemExit(f"tool call {tool} {arguments} failed: {result['text'][:2000]}")
        return str(result["text"]).strip("\n")


def with_output(page: str, shell: Shell) -> str:
    """The page with what its commands print today."""

    def written(match: re.Match[str]) -> str:
        commands, tool = match["commands"], match["tool"]
        printed = shell.output(commands) if commands else shell.answer(tool, match["arguments"])
        head = match[0][: match.start("text") - match.start()]
        return f"{head}{chosen(printed, match['paragraphs'])}```\n"

    return _SHOWN.sub(written, page)


def chosen(printed: str, paragraphs: str | None) -> str:
    """These paragraphs, counted from 1; ``...`` stands for each gap."""
    parts = re.split(r"\n{2,}", printed)
    numbers = sorted(set(_numbers(paragraphs or "1-", len(parts))))
    lines: list[str] = []
    for before, number in zip([0, *numbers], numbers, strict=False):
        lines += ["...", ""] if number > before + 1 else []
        lines += [*parts[number - 1].split("\n"), ""]
    lines = [*lines, "..."] if numbers[-1] < len(parts) else lines[:-1]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _numbers(ranges: str, last: int) -> Iterator[int]:
    for part in ranges.split(","):
        first, dash, end = part.strip().partition("-")
        wanted = range(int(first), (int(end or last) if dash else int(first)) + 1)
        if wanted.stop - 1 > last:
            raise SystemExit(f"there are {last} paragraphs, and the page shows {ranges}")
        yield from wanted


def changed(page: str, shell: Shell) -> str:
    """The difference between what a page shows and today's output; times do not count."""
    sides = ([_SECONDS.sub("N s", line) for line in text.splitlines()] for text in (page, with_output(page, shell)))
    return "\n".join(difflib.unified_diff(*sides, "the page", "today's output", lineterm=""))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is not current")
    check = parser.parse_args().check
    found = []
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            text, shell = page.read_text(), Shell(Path(folder))
            if not check:
                page.write_text(with_output(text, shell))
            elif difference := changed(text, shell):
                found.append(f"{page.relative_to(ROOT)}:\n{difference}")
    if found:
        sys.stderr.write("\n".join([*found, "run: python tools/shown_output.py", ""]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
