# SPDX-License-Identifier: Apache-2.0
"""One opened device, watched: its memory between calls, and what happens inside each call."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .account import LAUNCH, Account, Buffer, Effect, Move
from .captures import Captures
from .footprint import REFUSED, Call, Footprints, Measured, settle_refused
from .library import Library, View
from .nodes import Node, ProgramNeeds, moves_of
from .protocol import MEMORIES


class State(NamedTuple):
    """A moment between calls."""

    views: list[View]
    """The allocator's own figures, in the order of ``MEMORIES``."""
    came: list[Buffer]
    gone: list[int]
    """Buffers that changed since the last call ended (``del x``, uploads)."""


class Seen(NamedTuple):
    """What a call did."""

    effect: Effect
    l1: tuple[int, int, int, int]
    """Per core at the worst moment: tensors, circular buffers, dataflow buffers, scratchpads."""
    needs: tuple[ProgramNeeds | None, ...]
    """Of each program that was launched; None where it is not known."""
    problem: str
    """Why the parts of ``l1`` are not all known, empty when they are."""
    results: Any
    error: BaseException | None


class Watch:
    """Follows the memory of one device. Only calls made through it are seen from inside."""

    def __init__(
        self,
        library: Library,
        device: Any,
        *,
        captures: Captures | None = None,
        measure_programs: bool = True,
    ) -> None:
        self.device = device
        self._captures = captures or Captures(library)
        self._captures.before_program = self.rest
        self._between: threading.Thread | None = None
        """The thread in which our capture between calls is open. The library keeps captures by thread, and ending one
        in another thread crashes. What other threads do between calls is found in the table of blocks."""
        self._is_overtaken = self._is_out_of_order = False
        """Another thread made calls while that capture was open, so what it saw cannot be put in order; it has ended
        since, and the table of blocks is to be read instead."""
        self._moves: list[Move] = []
        """What happened between calls so far."""
        self.account = Account(library.pools(device), library.quantum)
        self._library = library
        self._number = device.id()
        self._measures = measure_programs
        self._footprints = Footprints(library, device, may_repeat=library.is_mock)
        self.others_seen = False
        """Buffers of another device came by (a second one, a submesh), which are not followed."""

    def state(self) -> State:
        """The views now, and what changed since the last call.

        A capture between calls tells what came and went; where the program captured a graph itself we were blind, and
        the library's table of all blocks, which is long, is read to find out.
        """
        self.rest()
        effect = self.account.apply(self._moves)
        self._moves.clear()
        came = {buffer.number: buffer for buffer in effect.born if buffer.number not in effect.gone}
        born = {buffer.number for buffer in effect.born}
        gone = [number for number in effect.gone if number not in born]
        must_compare = self._is_out_of_order or self._footprints.moved
        self._is_out_of_order = self._footprints.moved = False
        views: list[View] = []
        for memory in MEMORIES:
            pool = self.account.pools[memory]
            if not pool.bytes_per_bank:
                views.append(View(pool.banks, 0, 0, 0, 0))
                continue
            view = self._library.view(self.device, memory)
            views.append(view)
            if view.allocated != self.account.allocated[memory] or must_compare:
                blocks = self._library.blocks(self.device, memory, pool.base)
                new, missed = self.account.reconcile(memory, blocks)
                came |= {buffer.number: buffer for buffer in new}
                gone += [number for number in missed if came.pop(number, None) is None]
        self._listen()
        return State(views, list(came.values()), gone)

    def rest(self) -> None:
        """End our capture between calls; what it saw is kept for the next state."""
        if self._between is threading.current_thread():
            self._between = None
            nodes = self._captures.end()
            if self._is_overtaken:
                self._is_overtaken, self._is_out_of_order = False, True
            else:
                self._moves += moves_of(node for node in nodes if self._belongs(node))
        elif self._between is not None:
            self._is_overtaken = True

    def _listen(self) -> None:
        if self._between is not None and not self._between.is_alive():  # its capture went with it
            self._between, self._is_overtaken = None, False
        if not self._captures.by_program and self._between is None:
            self._captures.begin()
            self._between = threading.current_thread()

    def call(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: Mapping[str, Any],
        then: Callable[[Seen], None],
    ) -> Any:
        """Call it, tell ``then`` what it did, and give its results or its error to the caller as if nobody watched."""
        __tracebackhide__ = True
        self.rest()
        captures = not self._captures.by_program  # a capture inside one without dispatch would tell nonsense
        if captures:
            self._captures.begin()
        nodes: list[Node] = []
        try:
            try:
                results = function(*arguments, **options)
            finally:
                if captures:
                    nodes = self._captures.end()
        except BaseException as error:
            then(self._seen(nodes, Call(function, arguments, options, None), error))
            self._listen()
            raise
        seen = self._seen(nodes, Call(function, arguments, options, results), None)
        then(seen)
        self._listen()
        return seen.results

    def _seen(self, nodes: list[Node], call: Call, error: BaseException | None) -> Seen:
        if not nodes:
            return Seen(
                self.account.apply(()), (self.account.allocated["L1"], 0, 0, 0), (), _BLIND, call.results, error
            )
        own = [node for node in nodes if self._belongs(node)]
        moves = moves_of(own, raised=error is not None)
        effect = self.account.apply(moves)
        launched = [move.program for move in moves if move.kind == LAUNCH]
        l1_at_launch = effect.l1_at_launch
        if _refuses_program(error):
            launched.append(REFUSED)
            l1_at_launch = (*l1_at_launch, effect.highest_l1)
        measured = self._measured(own, call, launched)
        if launched[-1:] == [REFUSED]:
            measured = settle_refused(measured, str(error), self.account.pools["L1"].base)
        worst = (effect.highest_l1, 0, 0, 0)
        for tensors, need in zip(l1_at_launch, measured.needs, strict=True):
            circular, dataflow, scratchpads = need[1:] if need is not None else (0, 0, 0)
            moment = (tensors, circular, dataflow, scratchpads)
            worst = max(worst, moment, key=sum)
        return Seen(effect, worst, measured.needs, measured.problem, measured.results, error)

    def _measured(self, nodes: list[Node], call: Call, launched: list[str]) -> Measured:
        unknown: tuple[ProgramNeeds | None, ...] = (None,) * len(launched)
        if not launched:
            return Measured((), "", call.results)
        if not self._measures:
            return Measured(unknown, "not asked for", call.results)
        if self._is_tracing():
            return Measured(unknown, "inside a trace capture", call.results)
        return self._footprints.measure(nodes, call, launched)

    def _is_tracing(self) -> bool:
        if self._library.is_mock:  # whose traces are only told (see `mock_gaps`)
            return False
        active = getattr(self._library.core.device, "is_trace_capture_active", None)
        return bool(active(self.device)) if active else False

    def _belongs(self, node: Node) -> bool:
        """Buffers of another device (a second one, a submesh) are none of the watched one's."""
        device = (node["params"] or {}).get("device_id")
        if device is None or not node["node_type"].startswith("buffer_") or int(device) == self._number:
            return True
        self.others_seen = True
        return False


_BLIND = "inside a graph capture of the program's own"
_REFUSALS = ("clash with L1 buffers", "beyond max L1 size")


def _refuses_program(error: BaseException | None) -> bool:
    """Whether the library had made a program and then found that it has no room."""
    return error is not None and any(words in str(error) for words in _REFUSALS)
