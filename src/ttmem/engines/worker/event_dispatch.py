# SPDX-License-Identifier: Apache-2.0
"""Graph captures, the library's and ours: only one knows which end belongs to which begin if they are told apart.

We capture all the time, inside operations and between them. A program that captures a graph itself must find the
library as if we were not there: our own capture is ended before its begins, and ``is_graph_capture_active`` speaks of
its own alone.
"""

import functools
from collections.abc import Callable, Iterable
from threading import Thread, current_thread
from typing import Any, Protocol

from .graph_nodes import Node
from .library import Library, Patches

_ENDS = ("end_graph_capture", "end_graph_capture_to_file")


class GraphCaptures:
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

    def patch_program_captures(self, library: Library, patches: Patches) -> None:
        """Count what the program begins and ends from now on, by whichever name it calls it."""
        low, high = library.graph, library.ttnn.graph

        def replace(owners: tuple[Any, ...], original: Any, make: Callable[[Any], Callable[..., Any]]) -> None:
            if original is None:
                return
            changed = functools.wraps(original, updated=())(make(original))
            for owner in owners:
                for name in [name for name, value in vars(owner).items() if value is original]:
                    patches.replace(owner, name, lambda _: changed)

        replace((low, high), low.begin_graph_capture, functools.partial(self._wrap_begin, counted=True))
        for name in _ENDS:
            replace((low, high), getattr(low, name, None), self._wrap_end)
        replace((low, high), getattr(low, "is_graph_capture_active", None), lambda _: lambda: self.by_program > 0)
        # The Python layer asks whether a capture is active before it begins one.
        replace((high,), high.begin_graph_capture, functools.partial(self._wrap_begin, counted=False))

    def _wrap_begin(self, original: Any, *, counted: bool) -> Callable[..., Any]:
        def begin(*arguments: Any, **options: Any) -> Any:
            self.before_program()
            result = original(*arguments, **options)
            self.by_program += counted
            return result

        return begin

    def _wrap_end(self, original: Any) -> Callable[..., Any]:
        def end(*arguments: Any, **options: Any) -> Any:
            try:
                return original(*arguments, **options)
            finally:
                self.by_program = max(0, self.by_program - 1)

        return end


class MemoryListener(Protocol):
    """One device's account of its memory."""

    def on_events(self, nodes: list[Node]) -> None:
        """What came and went in its memory, in order."""

    def mark_out_of_sync(self) -> None:
        """Something happened that cannot be put in order: the library's table of blocks is to be read."""


class EventDispatcher:
    """Keeps a capture open between calls. The library has one per thread, whatever the number of devices."""

    def __init__(self, captures: GraphCaptures) -> None:
        self.captures = captures
        captures.before_program = self.flush
        self.subscribers: dict[int, MemoryListener] = {}
        """By the number that the library gives to a device, a mesh or a submesh."""
        self.saw_unknown_device = False
        """Memory of a device came by that nobody follows."""
        self._between: Thread | None = None
        """The thread in which our capture between calls is open: ending one in another thread crashes. What other
        threads do between calls is found in the table of blocks."""
        self._is_overtaken = False
        """Another thread made calls while that capture was open, so what it saw cannot be put in order."""

    def flush(self) -> None:
        """End our capture between calls, and tell everybody what it saw."""
        if self._between is current_thread():
            self._between = None
            nodes = self.captures.end()
            if not self._is_overtaken:
                self.dispatch(nodes)
                return
            self._is_overtaken = False
            for hearer in self.subscribers.values():
                hearer.mark_out_of_sync()
        elif self._between is not None:
            self._is_overtaken = True

    def hand_over_capture(self) -> bool:
        """Leave our capture between calls, which is open, to the caller; False when there is none to be had."""
        if self._between is not current_thread() or self._is_overtaken:
            return False
        self._between = None
        return True

    def start_capture(self) -> None:
        """Begin one, unless the program captures itself."""
        if self._between is not None and not self._between.is_alive():  # its capture went with it
            self._between, self._is_overtaken = None, False
        if not self.captures.by_program and self._between is None:
            self.captures.begin()
            self._between = current_thread()

    def dispatch(self, nodes: Iterable[Node], *, but: int | None = None) -> None:
        """Tell each device what happened to its buffers; ``but`` one that knows."""
        by_device: dict[int, list[Node]] = {}
        for node in nodes:
            number = find_owner(node)
            if number is not None and number != but:
                by_device.setdefault(number, []).append(node)
        for number, own in by_device.items():
            if number in self.subscribers:
                self.subscribers[number].on_events(own)
            else:
                self.saw_unknown_device = True


def find_owner(node: Node) -> int | None:
    """The number of the device whose buffer a node is about."""
    device = (node["params"] or {}).get("device_id") if node["node_type"].startswith("buffer_") else None
    return None if device is None else int(device)
