# SPDX-License-Identifier: Apache-2.0
"""A group of verbs is a folder: each file is one verb, listed from its first line and imported when it is used."""

import importlib
import re
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from ttmem.commands.run_command import GroupWithExamples, debug_option

_FIRST_LINE = re.compile(r'^"""``ttmem (?:\w+ )?([\w-]+)``: (.+?)(?:"""|$)', re.MULTILINE)
"""How a verb's file begins: the verb as it is typed, then its line in the help. Files that begin otherwise are none."""
_HEAD_CHARACTERS = 400


class VerbGroup(GroupWithExamples):
    """The verbs of a package; ``first`` are those that a newcomer needs first, ``last`` stand at the end."""

    def __init__(self, package: str, *, first: Sequence[str] = (), last: Sequence[str] = (), **settings: Any) -> None:
        params = [*settings.pop("params", ()), debug_option()]
        super().__init__(subcommand_metavar="VERB ...", params=params, **settings)
        self._package = package
        self._first, self._last = first, last

    @cached_property
    def lines(self) -> dict[str, str]:
        """Every verb with its line of help, in the order in which they are listed; nothing is imported."""
        folder = Path(str(sys.modules[self._package].__file__)).parent
        found = {}
        for path in sorted((*folder.glob("[!_]*.py"), *folder.glob("[!_]*/__init__.py"))):
            with path.open(encoding="utf-8") as file:
                if match := _FIRST_LINE.search(file.read(_HEAD_CHARACTERS)):
                    found[match[1]] = match[2]
        others = [name for name in found if name not in (*self._first, *self._last)]
        return {name: found[name] for name in (*self._first, *others, *self._last) if name in found}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every verb."""
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's own file."""
        if cmd_name not in self.lines:
            return None
        module = f"{self._package}.{cmd_name.replace('-', '_')}"
        command: click.Command = importlib.import_module(module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb, or what the user may have meant."""
        if args and args[0] not in self.lines and not args[0].startswith("-"):
            raise click.UsageError(f"no verb '{args[0]}'{self.guess(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def guess(self, word: str) -> str:
        """What may have been meant by a word that is no verb; empty when nobody can tell."""
        import difflib

        close = difflib.get_close_matches(word, self.lines, n=1)
        return f"; did you mean '{close[0]}'?" if close else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of verbs, from the first lines of their files."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(self.lines.items()))
