# SPDX-License-Identifier: Apache-2.0
"""Monitors an opened device: its memory between calls, and what happens inside each call."""

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
    """The memory at a moment between calls."""

    views: list[BankView]
    came: list[LedgerBuffer]
    gone: list[int]
    """Buffers that changed since the last call ended (``del x``, uploads)."""
    order: list[int | None]
    """See ``CallEffect.order``."""
    brief: list[LedgerBuffer]
    """Buffers that were allocated and freed since then."""


def build_state(views: list[BankView], effect: CallEffect) -> MemoryState:
    """Build the state after a call whose effect is fully known."""
    born, gone = {buffer.number for buffer in effect.born}, set(effect.gone)
    came = [buffer for buffer in effect.born if buffer.number not in gone]
    brief = [buffer for buffer in effect.born if buffer.number in gone]
    return MemoryState(views, came, [number for number in effect.gone if number not in born], list(effect.order), brief)


class CallRecord(NamedTuple):
    """The effect, L1 use and result of a call."""

    effect: CallEffect
    l1: tuple[int, int, int, int]
    """Per core at the worst moment: tensors, circular buffers, dataflow buffers, scratchpads."""
    needs: tuple[ProgramNeeds | None, ...]
    """Per launched program; None where unknown."""
    problem: str
    """Reason why parts of ``l1`` are unknown; empty when all are known."""
    results: Any
    error: BaseException | None


class DeviceMonitor:
    """Monitors the memory of a device, mesh or submesh, which has one allocator. Only calls made through the monitor
    are observed from inside; changes by other calls count as between calls."""

    def __init__(
        self,
        library: Library,
        device: Any,
        *,
        dispatcher: EventDispatcher | None = None,
        measure_programs: bool = True,
        rank: int = 0,
    ) -> None:
        self.device = device
        self.rank = rank
        """Its number among the devices that are open at the same time."""
        self.chips = frozenset(device.get_device_ids())
        self._number = device.id()
        self._dispatcher = dispatcher or EventDispatcher(GraphCaptures(library))
        self._dispatcher.subscribers[self._number] = self
        self._moves: list[Move] = []
        """Memory moves since the last call."""
        self._is_out_of_sync = False
        self.ledger = AllocationLedger(library.read_regions(device), library.quantum)
        self._states_since_view = dict.fromkeys(MEMORIES, 0)
        """Number of consecutive states that were taken from the ledger."""
        self._untrusted: set[str] = set()
        """Memories where the library's figures differed from the ledger."""
        self._library = library
        self._is_measuring = measure_programs
        self._meter = ProgramMeter(library, device, may_repeat=library.is_mock)

    def on_events(self, nodes: list[Node]) -> None:
        self._moves += read_moves(nodes)

    def mark_out_of_sync(self) -> None:
        """Read the table of blocks before the next call."""
        self._is_out_of_sync = True

    def clear_programs(self) -> None:
        self.device.clear_program_cache()
        self._meter.forget_programs()

    def close(self) -> None:
        self._dispatcher.flush()
        self._dispatcher.subscribers.pop(self._number, None)

    def read_state(self) -> MemoryState:
        """Return the current views, and the changes since the last call.

        A capture between calls records the changes. Where the program captured a graph itself, the library's table of
        all blocks, which is long, is read instead.
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
                views.append(self.ledger.compute_view(memory))
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
            if view != self.ledger.compute_view(memory):
                self._untrusted.add(memory)
        self._dispatcher.start_capture()
        brief = [buffer for number, buffer in there.items() if number not in came]
        return MemoryState(views, list(came.values()), gone, order, brief)

    def _can_trust_ledger(self, memory: str) -> bool:
        """Return whether to use the ledger's figures. The library counts all blocks for each view, so it is asked less
        often the more buffers there are; the total cost stays that of few buffers."""
        most = 0 if memory in self._untrusted else len(self.ledger.live[memory]) // _FEW_BUFFERS
        return self._states_since_view[memory] < most

    def call(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: Mapping[str, Any],
        on_record: Callable[[CallRecord], None],
        *,
        after_state: bool = False,
    ) -> Any:
        """Call a function, pass its record to ``on_record``, and return its result or raise its error unchanged.

        ``after_state``: the program did nothing since ``state``, so the capture that this began is the call's.
        """
        __tracebackhide__ = True
        captured = self._dispatcher.captures
        captures = not captured.by_program  # a capture inside one without dispatch is useless
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
            on_record(self._record_call(nodes, MeasuredCall(function, arguments, options, None), error))
            self._dispatcher.start_capture()
            raise
        record = self._record_call(nodes, MeasuredCall(function, arguments, options, results), None)
        on_record(record)
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
        if error is not None and any(words in str(error) for words in _REFUSALS):
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
        if self._library.is_mock:  # its traces are replaced (see `mock_gaps`)
            return False
        active = getattr(self._library.core.device, "is_trace_capture_active", None)
        return bool(active(self.device)) if active else False


_BLIND = "inside a graph capture of the program's own"
_REFUSALS = ("clash with L1 buffers", "beyond max L1 size")
