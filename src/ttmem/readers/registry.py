# SPDX-License-Identifier: Apache-2.0
"""The one list of readers, asked by every verb that takes a source: which kind a source is, is seen from its content.

A reader is a module of this room with ``KIND``, ``TITLE``, ``GIVES``, ``sniff(head)`` and ``read``; it is found by its
line ``GIVES = "..."``, so to add one is to write it. ``ORDER`` says when it is asked (50 where it says nothing). Such a
module imports nothing heavy, because those that give what is asked for are loaded one after the other until one knows
the source; what does the work is imported by ``read``.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ttmem.readers.byte_source import Head, Progress

_GIVES = re.compile(r'^GIVES = "([\w ]+)"', re.MULTILINE)
_ORDER = re.compile(r"^ORDER = (\d+)", re.MULTILINE)
_USUAL_ORDER = 50

PROFILE = "profile"
"""``read(source, options)`` gives a memory history."""
TEST_RESULTS = "test results"
"""``read(text, source)`` gives a list of ``ttmem.results.Result``."""
PROFILER_FACTS, WATCHER_FACTS, LOG_FACTS = "profiler facts", "watcher facts", "log facts"
"""``read(lines)`` gives what lines of text say about circular buffers."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a source that gives a profile; a reader takes what concerns it."""

    name: str
    """Of the profile."""
    jobs: int | None = None
    """Processes that may read a large log; None: as many as pay off."""
    progress: Progress | None = None
    mlir: Sequence[str | Path] = ()
    """Module dumps that belong to a log but lie in files of their own."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One entry of the list: a module of this room, and what comes out of it."""

    module: str
    gives: str

    @property
    def kind(self) -> str:
        """The name of what it reads, as answers write it."""
        return str(self._loaded.KIND)

    @property
    def title(self) -> str:
        """What it reads, for people."""
        return str(self._loaded.TITLE)

    def sniff(self, head: Head) -> bool:
        """Whether a source that begins like this is of its kind."""
        return bool(self._loaded.sniff(head))

    @property
    def read(self) -> Callable[..., Any]:
        """Called as ``gives`` says."""
        found: Callable[..., Any] = self._loaded.read
        return found

    @property
    def _loaded(self) -> Any:
        return import_module(f"ttmem.readers.{self.module}")


def _found() -> tuple[Reader, ...]:
    """The readers in this folder, in the order in which they are asked; none is imported."""
    folder, found = Path(__file__).parent, []
    for path in sorted(folder.rglob("[!_]*.py")) + sorted(folder.glob("*/__init__.py")):
        text = path.read_text(encoding="utf-8")
        if gives := _GIVES.search(text):
            module = path.relative_to(folder).with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")
            order = _ORDER.search(text)
            found.append((int(order[1]) if order else _USUAL_ORDER, Reader(module, gives[1])))
    return tuple(reader for _, reader in sorted(found, key=lambda one: (one[0], one[1].module)))


READERS = _found()
"""In the order in which they are asked."""
FALLBACK = READERS[-1]
"""Takes every file, because its lines may stand anywhere in one: what only it takes may be anything."""


def detect(source: str | Path | Head, *gives: str) -> Reader | None:
    """The reader of a source, of those that give what is asked for; None when it is none of their kinds.

    What a text holds may depend on who asks: the same log has a memory history and facts about circular buffers.
    """
    head = source if isinstance(source, Head) else Head.of(source)
    return next((reader for reader in readers(*gives) if reader.sniff(head)), None)


def readers(*gives: str) -> Iterator[Reader]:
    """The readers that give something of this; all without a choice."""
    return (reader for reader in READERS if not gives or reader.gives in gives)
