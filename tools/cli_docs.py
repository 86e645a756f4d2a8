# SPDX-License-Identifier: Apache-2.0
"""Write docs/cli.md and the table of tools in docs/mcp.md from the commands' own help, or check that they are current.

python tools/cli_docs.py            # write
python tools/cli_docs.py --check    # exit 1 when a file and the commands disagree
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ttmem.commands.mcp import is_for_people
from ttmem.commands.mcp_server.tools import list_tools
from ttmem.commands.program import cli
from ttmem.commands.tt_memory_profiler import command as profiler

DOCS = Path(__file__).resolve().parent.parent / "docs"
WIDTH_COLUMNS = 96

_HEAD = """\
<!-- Written by tools/cli_docs.py from the commands' own --help; `make docs` renews it, `make lint` checks it. -->

# Command line

Common to all verbs: the answer goes to stdout alone, notes and progress go to stderr; `-o FILE` writes atomically;
`NO_COLOR` is honoured; `--debug` (or `TTMEM_DEBUG=1`) shows the traceback behind an error.
Every `--json` answer names its document under `schema`; [schemas](schemas/README.md) holds the JSON Schema of each.

| exit code | meaning |
|---|---|
| 0 | done, or yes |
| 1 | the answer is no: over budget, regression |
| 2 | bad usage or bad input: one line says what and where, a hint says what to do next |
| 3 | an engine or an optional part is missing; the hint is the command that installs it |
| 125 | `run`, `test` or `tt-memory-profiler` itself failed (wrong usage, no such script, no ttnn: never 2 or 3); \
their other statuses are the child's (128 + signal when it was killed) |
| 130 | interrupted |
| 141 | the reader of stdout went away (`ttmem ... \\| head`) |
"""


def walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its path, parents first."""
    yield path, command
    if isinstance(command, click.Group):
        with click.Context(command, info_name=path[-1]) as ctx:
            for name in command.list_commands(ctx):
                child = command.get_command(ctx, name)
                if child is not None:
                    yield from walk(child, (*path, name))


def help_of(command: click.Command, path: tuple[str, ...]) -> str:
    """What ``--help`` prints, at a fixed width."""
    parent = None
    for name in path[:-1]:
        parent = click.Context(click.Group(name), info_name=name, parent=parent)
    settings = {**command.context_settings, "max_content_width": WIDTH_COLUMNS, "terminal_width": WIDTH_COLUMNS}
    with click.Context(command, info_name=path[-1], parent=parent, **settings) as ctx:
        return "\n".join(line.rstrip() for line in command.get_help(ctx).splitlines())


def document() -> str:
    """The whole page."""
    os.environ["NO_COLOR"] = "1"
    sections = [_HEAD]
    for path, command in (*walk(cli, ("ttmem",)), *walk(profiler, ("tt-memory-profiler",))):
        sections.append(f"## `{' '.join(path)}`\n\n```text\n{help_of(command, path)}\n```\n")
    return "\n".join(sections)


def tools_page() -> str:
    """docs/mcp.md with the tools that the verbs make today between its two marks."""
    text = (DOCS / "mcp.md").read_text(encoding="utf-8")
    before, mark, rest = text.partition("-->\n")
    _, end, after = rest.partition("<!-- end -->")
    rows = [f"| `{tool.name}` | {tool.line} |\n" for tool in list_tools(cli, is_for_people)]
    return "".join([before, mark, "\n| tool | purpose |\n|---|---|\n", *rows, "\n", end, after])


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the pages that come from the commands' own help.")
    parser.add_argument("--check", action="store_true", help="only say whether the pages are current")
    wanted = {DOCS / "cli.md": document(), DOCS / "mcp.md": tools_page()}
    if parser.parse_args().check:
        old = [page for page, text in wanted.items() if not page.is_file() or page.read_text(encoding="utf-8") != text]
        for page in old:
            print(f"docs/{page.name} is not what the commands say; run `make docs`", file=sys.stderr)
        return 1 if old else 0
    for page, text in wanted.items():
        page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
