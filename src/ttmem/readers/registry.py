# SPDX-License-Identifier: Apache-2.0
"""The one list of readers, asked by every verb that takes a source: which kind a source is, is seen from its content.

A reader is a module of this room with ``KIND``, ``TITLE``, ``sniff(head)`` and ``read``, named in ``READERS``. Such a
module imports nothing heavy, because those that give what is asked for are loaded one after the other until one knows
the source; what does the work is imported by ``read``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ttmem.readers.byte_source import Head, Progress

PROFILE = "profile"
"""``read(source, options)`` gives a memory history."""
PROFILER_FACTS, WATCHER_FACTS, LOG_FACTS = "profiler facts", "watcher facts", "log facts"
"""``read(lines)`` gives what lines of text say about circular buffers."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for a source that gives a profile; each reader uses those that concern it."""

    name: str
    """Of the profile."""
    jobs: int | None = None
    """Processes that may read a large log; None: as many as pay off."""
    progress: Progress | None = None
    mlir: Sequence[str | Path] = ()
    """Module dumps that belong to a log but are stored in files of their own."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of the list: a module, and the kind of its result."""

    module: str
    gives: str

    @property
    def kind(self) -> str:
        """The name of what it reads, as answers write it."""
        return str(self._loaded.KIND)

    @property
    def title(self) -> str:
        """The name of the sources that it reads, for people."""
        return str(self._loaded.TITLE)

    def sniff(self, head: Head) -> bool:
        """True when a source with this beginning is of its kind."""
        return bool(self._loaded.sniff(head))

    @property
    def read(self) -> Callable[..., Any]:
        """Called as ``gives`` says."""
        found: Callable[..., Any] = self._loaded.read
        return found

    @property
    def _loaded(self) -> Any:
        return import_module(self.module)


READERS = (
    Reader("ttmem.readers.saved_profile", PROFILE),
    Reader("ttmem.readers.visualizer", PROFILE),  # a report folder may hold captures too
    Reader("ttmem.readers.capture", PROFILE),
    Reader("ttmem.readers.ttrt", PROFILE),
    Reader("ttmem.readers.memory_report", PROFILE),
    Reader("ttmem.readers.mlir", PROFILE),
    Reader("ttmem.readers.profiler_csv", PROFILER_FACTS),
    Reader("ttmem.readers.watcher", WATCHER_FACTS),
    Reader("ttmem.readers.log_facts", LOG_FACTS),  # any text may hold such lines
    Reader("ttmem.readers.runtime_log", PROFILE),  # takes every file: its lines may be anywhere in one
)
"""In the order in which they are asked. ``operators/sweeps/foreign`` has those of test results."""
FALLBACK = READERS[-1]
"""Takes every file, because its lines may be anywhere in one: a source that only it takes may be anything."""


def detect(source: str | Path | Head, *gives: str) -> Reader | None:
    """The reader of a source, of those that give what is asked for; None when it is none of their kinds.

    What a text holds may depend on who asks: the same log has a memory history and facts about circular buffers.
    """
    return find_reader(source, (reader for reader in READERS if not gives or reader.gives in gives))


def find_reader(source: str | Path | Head, readers: Iterable[Reader]) -> Reader | None:
    """The first of these readers whose kind the source is."""
    head = source if isinstance(source, Head) else Head.read(source)
    return next((reader for reader in readers if reader.sniff(head)), None)
