# SPDX-License-Identifier: Apache-2.0
"""Words that mean the same in every verb: what ``--board`` may be is completed by shells and listed to agents.

An option of one of these names gets its words here, whichever verb declares it. They are asked for when somebody
completes, never for a verb's help; the verb itself understands every spelling of them and refuses the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

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

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Those that begin so; in ``n150,p1`` the word after the comma counts."""
        from click.shell_completion import CompletionItem

        before, comma, begun = ("", "", incomplete) if self.or_file else incomplete.rpartition(",")
        fitting = [word for word in self.words() if word.lower().startswith(begun.lower())]
        if self.or_file and (not fitting or os.sep in incomplete):
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(f"{before}{comma}{word}", help=self._about or None) for word in fitting]


def _names(registry: Iterable[Any]) -> list[str]:
    """Of those things that ttnn itself has."""
    return [value.name for value in registry if getattr(value, "in_ttnn", True)]


def _room(name: str) -> Any:
    return import_module(f"ttmem.{name}")


BOARD = Known("board", lambda: _names(_room("hardware").BOARDS))
DATA_TYPE = Known("type", lambda: _names(_room("hardware").DATA_TYPES))
SOURCE = Known("source", lambda: _room("profile.store").names(), about="stored report", or_file=True)

_OF_OPTIONS = {
    "--board": BOARD,
    "--boards": Known("board", lambda: ["all", *_names(_room("hardware").BOARDS)]),
    "--dtype": DATA_TYPE,
    "--kv-cache": DATA_TYPE,
    "--recipe": Known("recipe", lambda: _room("prediction.language.recipe").recipe_names()),
    "--layout": Known("layout", lambda: _names(_room("twin.tensor_spec").LAYOUTS)),
    "--memory": Known("memory", lambda: _names(_room("hardware").MEMORIES)),
    "--release": Known("version", lambda: _names(_room("hardware").RELEASES)),
    "--ttnn": Known("version", lambda: _names(_room("hardware").RELEASES)),
    "--op": Known("operator", lambda: _room("operators.catalogue_entries").catalogue().operators),
    "--baseline": SOURCE,
}
_OF_ARGUMENTS = {"BOARD": BOARD, "SOURCE": SOURCE, "NAME": Known("name", lambda: _room("profile.store").names())}


def give_words(params: Sequence[click.Parameter]) -> None:
    """Let every parameter of a verb that has one of the names above know its words."""
    for param in params:
        if not isinstance(param.type, click.types.StringParamType):
            continue
        names, known = param.opts, _OF_OPTIONS
        if isinstance(param, click.Argument):
            names, known = [(param.metavar or "").strip("[]."), str(param.name).upper()], _OF_ARGUMENTS
        param.type = next((known[name] for name in names if name in known), param.type)
