# SPDX-License-Identifier: Apache-2.0
"""Words that mean the same in every verb: what ``--board`` may be is completed by shells and listed to agents.

An option of one of these names gets its words here, whichever verb declares it. They are asked for when somebody
completes, never for a verb's help; the verb itself understands every spelling of them and refuses the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Known(click.ParamType):  # type: ignore[type-arg]
    """A name out of a registry; where ``or_file`` holds, a path is right too."""

    def __init__(
        self, name: str, words: Callable[[], Iterable[str]], *, about: str = "", or_file: bool = False
    ) -> None:
        self.name = name
        self.or_file = or_file
        self._words = words
        self._about = about

    def words(self) -> list[str]:
        """All of them, in the registry's order."""
        return list(self._words())

    def or_word(self, word: str) -> Known:
        """The same, and one more word that a verb understands."""
        return Known(self.name, lambda: [*self._words(), word])

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Those that begin so; in ``n150,p1`` the word after the comma counts."""
        from click.shell_completion import CompletionItem

        before, comma, begun = ("", "", incomplete) if self.or_file else incomplete.rpartition(",")
        fitting = [word for word in self.words() if word.lower().startswith(begun.lower())]
        if self.or_file and (not fitting or os.sep in incomplete):
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(f"{before}{comma}{word}", help=self._about or None) for word in fitting]


def _registry(room: str, name: str) -> Callable[[], Iterable[str]]:
    """The names in a registry of a room, of those things that ttnn itself has."""

    def names() -> Iterable[str]:
        registry = getattr(import_module(f"ttmem.{room}"), name)
        return [value.name for value in registry if getattr(value, "in_ttnn", True)]

    return names


def _operators() -> Iterable[str]:
    from ttmem.operators import catalogue

    return catalogue().operators


def _stored_names() -> Iterable[str]:
    from ttmem.store import store

    return store.names()


BOARD = Known("board", _registry("hardware", "BOARDS"))
DATA_TYPE = Known("type", _registry("hardware", "DATA_TYPES"))
SOURCE = Known("source", _stored_names, about="stored report", or_file=True)

_OF_OPTIONS = {
    "--board": BOARD,
    "--dtype": DATA_TYPE,
    "--layout": Known("layout", _registry("tensors", "LAYOUTS")),
    "--memory": Known("memory", _registry("hardware", "MEMORIES")),
    "--release": Known("version", _registry("hardware", "RELEASES")),
    "--op": Known("operator", _operators),
    "--baseline": SOURCE,
}
_OF_ARGUMENTS = {"BOARD": BOARD, "SOURCE": SOURCE, "NAME": Known("name", _stored_names)}


def give_words(params: Sequence[click.Parameter]) -> None:
    """Let every parameter of a verb that has one of the names above know its words."""
    for param in params:
        if not isinstance(param.type, click.types.StringParamType):
            continue
        if isinstance(param, click.Argument):
            names = ((param.metavar or "").strip("[]."), str(param.name).upper())
            found = next((_OF_ARGUMENTS[name] for name in names if name in _OF_ARGUMENTS), None)
        else:
            found = next((_OF_OPTIONS[option] for option in param.opts if option in _OF_OPTIONS), None)
        if found is not None:
            param.type = found
