# SPDX-License-Identifier: Apache-2.0
"""Graph captures, the library's and ours: only one knows which end belongs to which begin if they are told apart.

We capture all the time, inside operations and between them. A program that captures a graph itself must find the
library as if we were not there: our own capture is ended before its begins, and ``is_graph_capture_active`` speaks of
its own alone.
"""

import functools
from collections.abc import Callable
from typing import Any

from .library import Library, Patches
from .nodes import Node

_ENDS = ("end_graph_capture", "end_graph_capture_to_file")


class Captures:
    """Begins and ends our captures, and keeps count of the program's."""

    def __init__(self, library: Library) -> None:
        self._graph = library.graph
        self._begin, self._end = self._graph.begin_graph_capture, self._graph.end_graph_capture
        self.by_program = 0
        """How many captures the program has open."""
        self.before_program: Callable[[], None] = lambda: None
        """Called before the program begins one."""

    def begin(self) -> None:
        """A capture of ours; nothing of the program's may be open."""
        self._begin(self._graph.RunMode.NORMAL)

    def end(self) -> list[Node]:
        """The nodes since our ``begin``."""
        return list(self._end())

    def watch_program(self, library: Library, patches: Patches) -> None:
        """Count what the program begins and ends from now on, by whichever name it calls it."""
        low, high = library.graph, library.ttnn.graph

        def replace(owners: tuple[Any, ...], original: Any, make: Callable[[Any], Callable[..., Any]]) -> None:
            if original is None:
                return
            changed = functools.wraps(original, updated=())(make(original))
            for owner in owners:
                for name in [name for name, value in vars(owner).items() if value is original]:
                    patches.replace(owner, name, lambda _: changed)

        replace((low, high), low.begin_graph_capture, functools.partial(self._begun, counted=True))
        for name in _ENDS:
            replace((low, high), getattr(low, name, None), self._counted_end)
        replace((low, high), getattr(low, "is_graph_capture_active", None), lambda _: lambda: self.by_program > 0)
        # The Python layer asks whether a capture is active before it begins one.
        replace((high,), high.begin_graph_capture, functools.partial(self._begun, counted=False))

    def _begun(self, original: Any, *, counted: bool) -> Callable[..., Any]:
        def begin(*arguments: Any, **options: Any) -> Any:
            self.before_program()
            result = original(*arguments, **options)
            self.by_program += counted
            return result

        return begin

    def _counted_end(self, original: Any) -> Callable[..., Any]:
        def end(*arguments: Any, **options: Any) -> Any:
            try:
                return original(*arguments, **options)
            finally:
                self.by_program = max(0, self.by_program - 1)

        return end
