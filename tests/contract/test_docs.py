# SPDX-License-Identifier: Apache-2.0
"""Every command is documented, has an example, and its examples are real command lines."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shlex
from types import ModuleType

import click
import pytest

from support.command_line import ROOT
from ttmem.base.errors import BadInputError
from ttmem.commands.program import cli
from ttmem.commands.tt_memory_profiler import command as profiler


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cli_docs", ROOT / "tools" / "cli_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cli_docs = _tool()
COMMANDS = [*cli_docs.walk(cli, ("ttmem",)), *cli_docs.walk(profiler, ("tt-memory-profiler",))]
IDS = [" ".join(path) for path, _ in COMMANDS]


def test_the_pages_are_current() -> None:
    assert (ROOT / "docs" / "cli.md").read_text() == cli_docs.document(), "run `make docs`"
    assert (ROOT / "docs" / "mcp.md").read_text() == cli_docs.tools_page(), "run `make docs`"


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=IDS)
def test_every_command_is_documented_with_an_example(path: tuple[str, ...], command: click.Command) -> None:
    assert f"## `{' '.join(path)}`" in (ROOT / "docs" / "cli.md").read_text()
    assert command.help
    assert command.epilog, "an example says more than the list of options"
    assert all(getattr(option, "help", "") for option in command.params if isinstance(option, click.Option))


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=IDS)
def test_every_example_parses(path: tuple[str, ...], command: click.Command) -> None:
    programs = {"ttmem": cli, "tt-memory-profiler": profiler}
    for example in (command.epilog or "").strip().splitlines():
        words = shlex.split(re.split("[<>]", example.split("|")[-1])[0])
        if words[0] not in programs:  # another program that is told to start ours
            words = words[words.index("--") + 1 :]
        parsed: click.Command = programs[words[0]]
        rest = words[1:]
        while isinstance(parsed, click.Group) and rest and not rest[0].startswith("-"):
            child = parsed.get_command(click.Context(parsed), rest[0])
            assert child is not None, example
            parsed, rest = child, rest[1:]
        with contextlib.suppress(BadInputError):  # files of an example need not exist; its words must be right
            parsed.make_context(words[0], rest)


def test_every_page_is_reached_from_the_readme() -> None:
    found, pending = set(), [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        if page in found:
            continue
        found.add(page)
        for target in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text()):
            linked = (page.parent / target).resolve()
            assert linked.is_file(), f"{page.relative_to(ROOT)} links to {target}"
            pending.append(linked)
    pages = {*(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md"}
    assert {str(page.relative_to(ROOT)) for page in pages - found} == set()
