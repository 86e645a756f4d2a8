# SPDX-License-Identifier: Apache-2.0
"""What happens to memory between calls, heard for all open devices and passed on to the one that it happened to."""

from collections.abc import Iterable
from threading import Thread, current_thread
from typing import Protocol

from .captures import Captures
from .nodes import Node


class Hearer(Protocol):
    """One device's account of its memory."""

    def hear(self, nodes: list[Node]) -> None:
        """What came and went in its memory, in order."""

    def lose_track(self) -> None:
        """Something happened that cannot be put in order: the library's table of blocks is to be read."""


class Listener:
    """Keeps a capture open between calls. The library has one per thread, whatever the number of devices."""

    def __init__(self, captures: Captures) -> None:
        self.captures = captures
        captures.before_program = self.rest
        self.hearers: dict[int, Hearer] = {}
        """By the number that the library gives to a device, a mesh or a submesh."""
        self.heard_strangers = False
        """Memory of a device came by that nobody follows."""
        self._between: Thread | None = None
        """The thread in which our capture between calls is open: ending one in another thread crashes. What other
        threads do between calls is found in the table of blocks."""
        self._is_overtaken = False
        """Another thread made calls while that capture was open, so what it saw cannot be put in order."""

    def rest(self) -> None:
        """End our capture between calls, and tell everybody what it saw."""
        if self._between is current_thread():
            self._between = None
            nodes = self.captures.end()
            if not self._is_overtaken:
                self.pass_on(nodes)
                return
            self._is_overtaken = False
            for hearer in self.hearers.values():
                hearer.lose_track()
        elif self._between is not None:
            self._is_overtaken = True

    def hand_over(self) -> bool:
        """Leave our capture between calls, which is open, to the caller; False when there is none to be had."""
        if self._between is not current_thread() or self._is_overtaken:
            return False
        self._between = None
        return True

    def listen(self) -> None:
        """Begin one, unless the program captures itself."""
        if self._between is not None and not self._between.is_alive():  # its capture went with it
            self._between, self._is_overtaken = None, False
        if not self.captures.by_program and self._between is None:
            self.captures.begin()
            self._between = current_thread()

    def pass_on(self, nodes: Iterable[Node], *, but: int | None = None) -> None:
        """Tell each device what happened to its buffers; ``but`` one that knows."""
        by_device: dict[int, list[Node]] = {}
        for node in nodes:
            number = owner_of(node)
            if number is not None and number != but:
                by_device.setdefault(number, []).append(node)
        for number, own in by_device.items():
            if number in self.hearers:
                self.hearers[number].hear(own)
            else:
                self.heard_strangers = True


def owner_of(node: Node) -> int | None:
    """The number of the device whose buffer a node is about."""
    device = (node["params"] or {}).get("device_id") if node["node_type"].startswith("buffer_") else None
    return None if device is None else int(device)
