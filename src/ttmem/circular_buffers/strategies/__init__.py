# SPDX-License-Identifier: Apache-2.0
"""Tiles of each circular buffer for a workload: the rules are files, built-in or from the user.

The TOML files next to this one show the format: ``[tiles]`` has a number or an expression per buffer, ``[let]`` names
parts of it.
The buffers have the roles of the published program: ``cb0`` A tiles, ``cb1`` B tiles, ``cb2`` partial results that the
compute kernel hands to itself, ``cb16`` results for the writer. Further ``cbN`` count in L1 alone.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ttmem.base import toml
from ttmem.base.errors import BadInputError
from ttmem.base.expression import ExpressionError, Language
from ttmem.base.limits import LIST_BYTES
from ttmem.base.text_files import read_bytes
from ttmem.circular_buffers.workload import Workload

FIXED, ADAPTIVE_GUIDE, ADAPTIVE_PROGRAM = "fixed", "adaptive-guide", "adaptive-program"
BUILT_IN = (FIXED, ADAPTIVE_GUIDE, ADAPTIVE_PROGRAM)
GROUPS = {"adaptive": (ADAPTIVE_GUIDE, ADAPTIVE_PROGRAM), "all": BUILT_IN}
ROLES = ("cb0", "cb1", "cb2", "cb16")
MAX_TILES_PER_BUFFER = 65535
"""The library's limit of pages: its counters have 16 bits."""

LANGUAGE = Language(
    choices=True,
    hint="use whole numbers, names, + - * // %, comparisons, and, or, not, min(), max() and 'a if b else c'",
)
"""Of the expressions in a strategy file."""

_BUFFER_NAME = re.compile(r"cb(\d{1,3})\Z")


@dataclass(frozen=True, slots=True)
class Strategy:
    """A rule, not yet applied."""

    name: str
    about: str
    let: tuple[tuple[str, str], ...]
    tiles: tuple[tuple[str, str], ...]
    where: str
    """The file that it came from, for messages."""

    def tiles_for(self, workload: Workload, tile_bytes: int) -> dict[str, int]:
        """Tiles per buffer, in the order in which the file declares them."""
        names = {**asdict(workload), "tile_bytes": tile_bytes}
        for name, text in self.let:
            names[name] = self._evaluate(name, text, names)
        found: dict[str, int] = {}
        for name, text in self.tiles:
            count = self._evaluate(name, text, names)
            if not 1 <= count <= MAX_TILES_PER_BUFFER:
                raise BadInputError(
                    f"{name} gets {count} tiles for {workload}; a buffer has from 1 to {MAX_TILES_PER_BUFFER}",
                    where=self.where,
                )
            found[name] = names[name] = count
        return found

    def _evaluate(self, name: str, text: str, names: Mapping[str, int]) -> int:
        try:
            return int(LANGUAGE.evaluate(text, names))
        except ExpressionError as error:
            raise BadInputError(f"{name}: {error}", where=self.where, hint=error.hint) from error


def index_of(buffer: str) -> int:
    """``cb16`` -> 16."""
    return int(buffer.removeprefix("cb"))


def choose(word: str) -> tuple[Strategy, ...]:
    """The strategies that a word means: a built-in one, a group of them, or a file."""
    if word in GROUPS:
        return tuple(_built_in(name) for name in GROUPS[word])
    if word in BUILT_IN:
        return (_built_in(word),)
    path = Path(word)
    if path.suffix == ".toml" or path.exists():
        return (load(path),)
    raise BadInputError(
        f"unknown strategy {word!r}",
        hint=f"known: {', '.join((*BUILT_IN, *GROUPS))}, or a file such as my.toml",
    )


def load(path: Path) -> Strategy:
    """A strategy from the user's file."""
    content = read_bytes(path, most=LIST_BYTES, what="a strategy file")
    return parse(content, where=str(path), default_name=path.stem)


def parse(content: bytes, *, where: str, default_name: str) -> Strategy:
    """A strategy from the text of a file."""
    try:
        document = toml.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # tomllib's own error is a ValueError, as is a wrong encoding
        raise BadInputError(f"is not TOML: {error}", where=where) from error
    unknown = sorted(set(document) - {"name", "about", "let", "tiles"})
    if unknown:
        raise BadInputError(
            f"unknown key {unknown[0]!r}", where=where, hint="a strategy has name, about, [let] and [tiles]"
        )
    tiles = _texts(document.get("tiles", {}), "tiles", where)
    for name, _ in tiles:
        if not _BUFFER_NAME.match(name):
            raise BadInputError(f"[tiles] has {name!r}; buffers are called cb0, cb1, ...", where=where)
    missing = [role for role in ROLES if role not in dict(tiles)]
    if missing:
        raise BadInputError(
            f"[tiles] says nothing of {', '.join(missing)}", where=where, hint=f"it needs {', '.join(ROLES)}"
        )
    name = document.get("name", default_name)
    about = document.get("about", "")
    if not isinstance(name, str) or not isinstance(about, str) or not name.strip():
        raise BadInputError("name and about are texts", where=where)
    return Strategy(name.strip(), about, _texts(document.get("let", {}), "let", where), tiles, where)


def _texts(table: Any, key: str, where: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(table, dict):
        raise BadInputError(f"{key} is a table: write [{key}]", where=where)
    for name, value in table.items():
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise BadInputError(f"[{key}] {name} is neither a whole number nor an expression", where=where)
    return tuple((name, str(value)) for name, value in table.items())


@cache
def _built_in(name: str) -> Strategy:
    from importlib.resources import files

    content = files(__name__).joinpath(f"{name}.toml").read_bytes()
    return parse(content, where=f"{name}.toml", default_name=name)
