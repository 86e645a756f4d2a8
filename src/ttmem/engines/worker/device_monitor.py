# SPDX-License-Identifier: Apache-2.0
"""One opened device, watched: its memory between calls, and what happens inside each call."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .event_dispatch import Captures, Listener, owner_of
from .graph_nodes import Node, ProgramNeeds
from .ledger import LAUNCH, Account, Buffer, Effect, Move, moves_of
from .library import Library, View
from .program_needs import REFUSED, Call, Footprints, Measured, settle_refused
from .protocol import MEMORIES

_FEW_BUFFERS = 256


class State(NamedTuple):
    """A moment between calls."""

    views: list[View]
    """The allocator's own figures, in the order of ``MEMORIES``."""
    came: list[Buffer]
    gone: list[int]
    """Buffers that changed since the last call ended (``del x``, uploads)."""
    order: list[int | None]
    """As ``Effect.order``."""
    brief: list[Buffer]
    """Buffers that came and went since then."""


def state_of(views: list[View], effect: Effect) -> State:
    """A moment of which everything was seen that led to it."""
    born, gone = {buffer.number for buffer in effect.born}, set(effect.gone)
    came = [buffer for buffer in effect.born if buffer.number not in gone]
    brief = [buffer for buffer in effect.born if buffer.number in gone]
    return State(views, came, [number for number in effect.gone if number not in born], list(effect.order), brief)


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
    """Follows the memory of one device, mesh or submesh: of one allocator. Only calls made through it are seen from
    inside; what calls of others do to its memory counts as between calls."""

    def __init__(
        self,
        library: Library,
        device: Any,
        *,
        listener: Listener | None = None,
        measure_programs: bool = True,
        rank: int = 0,
    ) -> None:
        self.device = device
        self.rank = rank
        """Its place among the devices that are open at the same time."""
        self.chips = frozenset(device.get_device_ids())
        self._number = device.id()
        self._listener = listener or Listener(Captures(library))
        self._listener.hearers[self._number] = self
        self._moves: list[Move] = []
        """What happened between calls so far."""
        self._has_lost_track = False
        self.account = Account(library.pools(device), library.quantum)
        self._unasked = dict.fromkeys(MEMORIES, 0)
        """How many states in turn were taken from the account."""
        self._always_asked: set[str] = set()
        """Memories of which the library said something else than the account."""
        self._library = library
        self._measures = measure_programs
        self._footprints = Footprints(library, device, may_repeat=library.is_mock)

    def hear(self, nodes: list[Node]) -> None:
        """What came and went between calls."""
        self._moves += moves_of(nodes)

    def lose_track(self) -> None:
        """The table of blocks is read before the next call."""
        self._has_lost_track = True

    def clear_programs(self) -> None:
        """Empty the library's cache of them."""
        self.device.clear_program_cache()
        self._footprints.programs_gone()

    def close(self) -> None:
        """Follow it no longer."""
        self._listener.rest()
        self._listener.hearers.pop(self._number, None)

    def state(self) -> State:
        """The views now, and what changed since the last call.

        A capture between calls tells what came and went; where the program captured a graph itself we were blind, and
        the library's table of all blocks, which is long, is read to find out.
        """
        self._listener.rest()
        effect = self.account.apply(self._moves)
        self._moves.clear()
        came = {buffer.number: buffer for buffer in effect.born if buffer.number not in effect.gone}
        born = {buffer.number for buffer in effect.born}
        gone = [number for number in effect.gone if number not in born]
        order, there = list(effect.order), {buffer.number: buffer for buffer in effect.born}
        must_compare = self._has_lost_track or self._footprints.moved
        self._has_lost_track = self._footprints.moved = False
        views: list[View] = []
        for memory in MEMORIES:
            pool = self.account.pools[memory]
            if not pool.bytes_per_bank:
                views.append(View(pool.banks, 0, 0, 0, 0))
                continue
            if self._may_trust_account(memory) and not must_compare:
                self._unasked[memory] += 1
                views.append(self.account.view(memory))
                continue
            self._unasked[memory] = 0
            view = self._library.view(self.device, memory)
            views.append(view)
            if view.allocated != self.account.allocated[memory] or must_compare:
                blocks = self._library.blocks(self.device, memory, pool.base)
                new, missed = self.account.reconcile(memory, blocks)
                came |= {buffer.number: buffer for buffer in new}
                there |= {buffer.number: buffer for buffer in new}
                order += [*(~number for number in missed), *(buffer.number for buffer in new)]
                gone += [number for number in missed if came.pop(number, None) is None]
            if view != self.account.view(memory):
                self._always_asked.add(memory)
        self._listener.listen()
        brief = [buffer for number, buffer in there.items() if number not in came]
        return State(views, list(came.values()), gone, order, brief)

    def _may_trust_account(self, memory: str) -> bool:
        """The library counts all its blocks for a view. So it is asked the less often the more there are, and always
        while they are few: in total as much as if there were only so many."""
        most = 0 if memory in self._always_asked else len(self.account.live[memory]) // _FEW_BUFFERS
        return self._unasked[memory] < most

    def call(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: Mapping[str, Any],
        then: Callable[[Seen], None],
        *,
        after_state: bool = False,
    ) -> Any:
        """Call it, tell ``then`` what it did, and give its results or its error to the caller as if nobody watched.

        ``after_state``: the program did nothing since ``state``, so the capture that this began is the call's.
        """
        __tracebackhide__ = True
        captured = self._listener.captures
        captures = not captured.by_program  # a capture inside one without dispatch would tell nonsense
        if not (after_state and self._listener.hand_over()):
            self._listener.rest()
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
            then(self._seen(nodes, Call(function, arguments, options, None), error))
            self._listener.listen()
            raise
        seen = self._seen(nodes, Call(function, arguments, options, results), None)
        then(seen)
        self._listener.listen()
        return seen.results

    def _seen(self, nodes: list[Node], call: Call, error: BaseException | None) -> Seen:
        if not nodes:
            return Seen(
                self.account.apply(()), (self.account.allocated["L1"], 0, 0, 0), (), _BLIND, call.results, error
            )
        self._listener.pass_on(nodes, but=self._number)
        own = [node for node in nodes if owner_of(node) in (None, self._number)]
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


_BLIND = "inside a graph capture of the program's own"
_REFUSALS = ("clash with L1 buffers", "beyond max L1 size")


def _refuses_program(error: BaseException | None) -> bool:
    """Whether the library had made a program and then found that it has no room."""
    return error is not None and any(words in str(error) for words in _REFUSALS)
