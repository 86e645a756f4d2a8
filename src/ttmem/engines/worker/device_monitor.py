# SPDX-License-Identifier: Apache-2.0
"""One opened device, watched: its memory between calls, and what happens inside each call."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .event_dispatch import EventDispatcher, GraphCaptures, find_owner
from .graph_nodes import Node, ProgramNeeds
from .ledger import LAUNCH, AllocationLedger, CallEffect, LedgerBuffer, Move, read_moves
from .library import BankView, Library
from .program_needs import REFUSED, MeasuredCall, Measurement, ProgramMeter, settle_refused
from .protocol import MEMORIES

_FEW_BUFFERS = 256


class MemoryState(NamedTuple):
    """A moment between calls."""

    views: list[BankView]
    """The allocator's own figures, in the order of ``MEMORIES``."""
    came: list[LedgerBuffer]
    gone: list[int]
    """Buffers that changed since the last call ended (``del x``, uploads)."""
    order: list[int | None]
    """As ``CallEffect.order``."""
    brief: list[LedgerBuffer]
    """Buffers that came and went since then."""


def build_state(views: list[BankView], effect: CallEffect) -> MemoryState:
    """A moment of which everything was seen that led to it."""
    born, gone = {buffer.number for buffer in effect.born}, set(effect.gone)
    came = [buffer for buffer in effect.born if buffer.number not in gone]
    brief = [buffer for buffer in effect.born if buffer.number in gone]
    return MemoryState(views, came, [number for number in effect.gone if number not in born], list(effect.order), brief)


class CallRecord(NamedTuple):
    """What a call did."""

    effect: CallEffect
    l1: tuple[int, int, int, int]
    """Per core at the worst moment: tensors, circular buffers, dataflow buffers, scratchpads."""
    needs: tuple[ProgramNeeds | None, ...]
    """Of each program that was launched; None where it is not known."""
    problem: str
    """Why the parts of ``l1`` are not all known, empty when they are."""
    results: Any
    error: BaseException | None


class DeviceMonitor:
    """Follows the memory of one device, mesh or submesh: of one allocator. Only calls made through it are seen from
    inside; what calls of others do to its memory counts as between calls."""

    def __init__(
        self,
        library: Library,
        device: Any,
        *,
        listener: EventDispatcher | None = None,
        measure_programs: bool = True,
        rank: int = 0,
    ) -> None:
        self.device = device
        self.rank = rank
        """Its place among the devices that are open at the same time."""
        self.chips = frozenset(device.get_device_ids())
        self._number = device.id()
        self._dispatcher = listener or EventDispatcher(GraphCaptures(library))
        self._dispatcher.subscribers[self._number] = self
        self._moves: list[Move] = []
        """What happened between calls so far."""
        self._is_out_of_sync = False
        self.ledger = AllocationLedger(library.read_regions(device), library.quantum)
        self._states_since_view = dict.fromkeys(MEMORIES, 0)
        """How many states in turn were taken from the account."""
        self._untrusted: set[str] = set()
        """Memories of which the library said something else than the account."""
        self._library = library
        self._is_measuring = measure_programs
        self._meter = ProgramMeter(library, device, may_repeat=library.is_mock)

    def on_events(self, nodes: list[Node]) -> None:
        """What came and went between calls."""
        self._moves += read_moves(nodes)

    def mark_out_of_sync(self) -> None:
        """The table of blocks is read before the next call."""
        self._is_out_of_sync = True

    def clear_programs(self) -> None:
        """Empty the library's cache of them."""
        self.device.clear_program_cache()
        self._meter.forget_programs()

    def close(self) -> None:
        """Follow it no longer."""
        self._dispatcher.flush()
        self._dispatcher.subscribers.pop(self._number, None)

    def state(self) -> MemoryState:
        """The views now, and what changed since the last call.

        A capture between calls tells what came and went; where the program captured a graph itself we were blind, and
        the library's table of all blocks, which is long, is read to find out.
        """
        self._dispatcher.flush()
        effect = self.ledger.apply(self._moves)
        self._moves.clear()
        came = {buffer.number: buffer for buffer in effect.born if buffer.number not in effect.gone}
        born = {buffer.number for buffer in effect.born}
        gone = [number for number in effect.gone if number not in born]
        order, there = list(effect.order), {buffer.number: buffer for buffer in effect.born}
        must_compare = self._is_out_of_sync or self._meter.has_moved_results
        self._is_out_of_sync = self._meter.has_moved_results = False
        views: list[BankView] = []
        for memory in MEMORIES:
            pool = self.ledger.pools[memory]
            if not pool.bytes_per_bank:
                views.append(BankView(pool.banks, 0, 0, 0, 0))
                continue
            if self._can_trust_ledger(memory) and not must_compare:
                self._states_since_view[memory] += 1
                views.append(self.ledger.view(memory))
                continue
            self._states_since_view[memory] = 0
            view = self._library.read_view(self.device, memory)
            views.append(view)
            if view.allocated != self.ledger.allocated[memory] or must_compare:
                blocks = self._library.read_blocks(self.device, memory, pool.base)
                new, missed = self.ledger.reconcile(memory, blocks)
                came |= {buffer.number: buffer for buffer in new}
                there |= {buffer.number: buffer for buffer in new}
                order += [*(~number for number in missed), *(buffer.number for buffer in new)]
                gone += [number for number in missed if came.pop(number, None) is None]
            if view != self.ledger.view(memory):
                self._untrusted.add(memory)
        self._dispatcher.start_capture()
        brief = [buffer for number, buffer in there.items() if number not in came]
        return MemoryState(views, list(came.values()), gone, order, brief)

    def _can_trust_ledger(self, memory: str) -> bool:
        """The library counts all its blocks for a view. So it is asked the less often the more there are, and always
        while they are few: in total as much as if there were only so many."""
        most = 0 if memory in self._untrusted else len(self.ledger.live[memory]) // _FEW_BUFFERS
        return self._states_since_view[memory] < most

    def call(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: Mapping[str, Any],
        then: Callable[[CallRecord], None],
        *,
        after_state: bool = False,
    ) -> Any:
        """Call it, tell ``then`` what it did, and give its results or its error to the caller as if nobody watched.

        ``after_state``: the program did nothing since ``state``, so the capture that this began is the call's.
        """
        __tracebackhide__ = True
        captured = self._dispatcher.captures
        captures = not captured.by_program  # a capture inside one without dispatch would tell nonsense
        if not (after_state and self._dispatcher.hand_over_capture()):
            self._dispatcher.flush()
            if captures:
                captured.begin()
        nodes: list[Node] = []
        try:
            try:
                results = function(*arguments, **options)
            finally:
                if captures:
                    nodes = captured.end()
        except BaseException as error:
            then(self._record_call(nodes, MeasuredCall(function, arguments, options, None), error))
            self._dispatcher.start_capture()
            raise
        record = self._record_call(nodes, MeasuredCall(function, arguments, options, results), None)
        then(record)
        self._dispatcher.start_capture()
        return record.results

    def _record_call(self, nodes: list[Node], call: MeasuredCall, error: BaseException | None) -> CallRecord:
        if not nodes:
            return CallRecord(
                self.ledger.apply(()), (self.ledger.allocated["L1"], 0, 0, 0), (), _BLIND, call.results, error
            )
        self._dispatcher.dispatch(nodes, but=self._number)
        own = [node for node in nodes if find_owner(node) in (None, self._number)]
        moves = read_moves(own, raised=error is not None)
        effect = self.ledger.apply(moves)
        launched = [move.program for move in moves if move.kind == LAUNCH]
        l1_at_launch = effect.l1_at_launch
        if _is_program_refusal(error):
            launched.append(REFUSED)
            l1_at_launch = (*l1_at_launch, effect.highest_l1)
        measured = self._measure_programs(own, call, launched)
        if launched[-1:] == [REFUSED]:
            measured = settle_refused(measured, str(error), self.ledger.pools["L1"].base)
        worst = (effect.highest_l1, 0, 0, 0)
        for tensors, need in zip(l1_at_launch, measured.needs, strict=True):
            circular, dataflow, scratchpads = need[1:] if need is not None else (0, 0, 0)
            moment = (tensors, circular, dataflow, scratchpads)
            worst = max(worst, moment, key=sum)
        return CallRecord(effect, worst, measured.needs, measured.problem, measured.results, error)

    def _measure_programs(self, nodes: list[Node], call: MeasuredCall, launched: list[str]) -> Measurement:
        unknown: tuple[ProgramNeeds | None, ...] = (None,) * len(launched)
        if not launched:
            return Measurement((), "", call.results)
        if not self._is_measuring:
            return Measurement(unknown, "not asked for", call.results)
        if self._is_tracing():
            return Measurement(unknown, "inside a trace capture", call.results)
        return self._meter.measure(nodes, call, launched)

    def _is_tracing(self) -> bool:
        if self._library.is_mock:  # whose traces are only told (see `mock_gaps`)
            return False
        active = getattr(self._library.core.device, "is_trace_capture_active", None)
        return bool(active(self.device)) if active else False


_BLIND = "inside a graph capture of the program's own"
_REFUSALS = ("clash with L1 buffers", "beyond max L1 size")


def _is_program_refusal(error: BaseException | None) -> bool:
    """Whether the library had made a program and then found that it has no room."""
    return error is not None and any(words in str(error) for words in _REFUSALS)
