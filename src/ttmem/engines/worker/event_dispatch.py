# SPDX-License-Identifier: Apache-2.0
"""Graph captures, ours and the program's, and the dispatch of memory events between calls.

We capture inside operations and between them. A program that captures a graph itself must not notice: our capture ends
before its begins, and ``is_graph_capture_active`` reports its captures only.
"""

import functools
from collections.abc import Callable, Iterable
from threading import Thread, current_thread
from typing import Any, Protocol

from .graph_nodes import Node
from .library import Library, Patches

_ENDS = ("end_graph_capture", "end_graph_capture_to_file")


class GraphCaptures:
    """Begins and ends our captures, and counts the program's."""

    def __init__(self, library: Library) -> None:
        self._graph = library.graph
        self._begin, self._end = self._graph.begin_graph_capture, self._graph.end_graph_capture
        self.by_program = 0
        """Number of captures that the program has open."""
        self.before_program: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Begin a capture of ours; the program must not have one open."""
        self._begin(self._graph.RunMode.NORMAL)

    def end(self) -> list[Node]:
        return list(self._end())

    def patch_program_captures(self, library: Library, patches: Patches) -> None:
        """Count the captures that the program begins and ends, under every name of the functions."""
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
    def on_events(self, nodes: list[Node]) -> None: ...

    def mark_out_of_sync(self) -> None:
        """Report that events cannot be put in order: the library's table of blocks has to be read."""


class EventDispatcher:
    """Keeps a capture open between calls. The library has one capture per thread, for all devices."""

    def __init__(self, captures: GraphCaptures) -> None:
        self.captures = captures
        captures.before_program = self.flush
        self.subscribers: dict[int, MemoryListener] = {}
        """By the library's number of the device, mesh or submesh."""
        self.saw_unknown_device = False
        """A memory event belonged to a device that is not monitored."""
        self._between: Thread | None = None
        """The thread that holds our capture between calls: ending it in another thread crashes. Changes by other
        threads are found in the table of blocks."""
        self._is_overtaken = False
        """Another thread made calls during that capture, so its events have no reliable order."""

    def flush(self) -> None:
        """End our capture between calls and dispatch its events."""
        if self._between is current_thread():
            self._between = None
            nodes = self.captures.end()
            if not self._is_overtaken:
                self.dispatch(nodes)
                return
            self._is_overtaken = False
            for listener in self.subscribers.values():
                listener.mark_out_of_sync()
        elif self._between is not None:
            self._is_overtaken = True

    def hand_over_capture(self) -> bool:
        """Hand our open capture between calls to the caller; return False when there is none to use."""
        if self._between is not current_thread() or self._is_overtaken:
            return False
        self._between = None
        return True

    def start_capture(self) -> None:
        """Begin a capture, unless the program has one open."""
        if self._between is not None and not self._between.is_alive():  # its capture went with it
            self._between, self._is_overtaken = None, False
        if not self.captures.by_program and self._between is None:
            self.captures.begin()
            self._between = current_thread()

    def dispatch(self, nodes: Iterable[Node], *, but: int | None = None) -> None:
        """Send each device its own events, except the device ``but``."""
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
    """Return the number of the device of a buffer's node; None for other nodes."""
    device = (node["params"] or {}).get("device_id") if node["node_type"].startswith("buffer_") else None
    return None if device is None else int(device)
