# SPDX-License-Identifier: Apache-2.0
"""Failures and end of a run: each failure once, with the operation that was running."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from ttmem.analysis.architecture import guess_architecture
from ttmem.analysis.lifetimes import TensorLife, buffers_in_state, lifetimes
from ttmem.analysis.peaks import operation_place
from ttmem.analysis.states import known, operation_line
from ttmem.failures.diagnosis.diagnose import Diagnosis, diagnose
from ttmem.failures.diagnosis.failure_state import LiveTensor
from ttmem.failures.failure import Failure
from ttmem.failures.knowledge.tables import find_failure_class
from ttmem.failures.text.context import Context, KnownTensor
from ttmem.failures.text.find import deduplicate, find_failures, is_echo
from ttmem.hardware import BOARDS
from ttmem.profile.model import MEMORIES, Profile, Timeline
from ttmem.profile.runs import find_run

_MEMORY_STATUSES = ("oom", "clash", "overflow")
_MEMORY_CLASSES = ("compile/memory",)
_HOST_MEMORY = "host/memory"
_EXCEPTION = re.compile(r"(?:\w+\.)*(?P<name>\w*(?:Error|Exception|Interrupt|Exit|Expired|Failed))\b:?\s*")


@dataclass(frozen=True, slots=True)
class RunFailure(Failure):
    """A failure of a run, with the operation that was running."""

    operation_index: int | None = None
    """None: outside any program, where inputs and weights are uploaded."""
    operation_name: str = ""
    operation_location: str = ""
    rank: int = -1
    survived: bool = False
    """Operations were started after it, or the program caught it at its end: the process went on."""

    @property
    def is_for_memory(self) -> bool:
        """True if the device's memory was too small for the request; a crash or a time-out does not show that."""
        return (
            self.failure_class in _MEMORY_CLASSES or find_failure_class(self.failure_class).status in _MEMORY_STATUSES
        )


def failures(profile: Profile) -> list[RunFailure]:
    """Return the failures in the order in which they were printed, each once.

    Where any process reports a real error, messages without a cause (``Error code: 13``) are left out.
    """
    found: list[RunFailure] = []
    for timeline in profile.timelines:
        seen: list[tuple[Failure, int, int]] = []
        for text in timeline.failures:
            found_here = find_failures(text.text, first_line=text.line, include_other=True)
            if not found_here and text.is_exception:  # of an unknown wording
                found_here = [Failure("none", None, " ".join(text.text.split()), "", line=text.line)]
            started = -1 if text.is_caught else text.next_operation
            seen += [(failure, text.operation, started) for failure in found_here]
        places = _Places(seen)
        # A message may be known from one of its prints and cut in another: the same failure must keep its first place.
        for failure in deduplicate([failure for failure, _, _ in seen]):
            operation, next_operation = places.find(failure)
            name, location = operation_place(profile, timeline, operation)
            found.append(
                RunFailure(
                    **{item.name: getattr(failure, item.name) for item in fields(failure)},
                    operation_index=known(operation),
                    operation_name=name,
                    operation_location=location,
                    rank=timeline.rank,
                    survived=next_operation < timeline.end_index,
                )
            )
    if any(not item.is_warning and not is_echo(item) for item in found):
        return [item for item in found if not is_echo(item)]
    return found


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The error, signal or time limit that ended a run."""

    error: str
    """The exception's type, ``SIGSEGV``, or ``TimeoutExpired``; empty where the source does not say."""
    message: str
    location: str
    """The line of the program, ``model.py:286``; empty where the source does not say."""
    is_for_memory: bool
    """Whether the device's memory was too small."""
    not_judged: bool = False
    """An assertion of the script's own failed after it had read values, which a mock board does not compute."""
    ended: str = "the run"
    """``the script`` where a script was recorded."""

    @property
    def sentence(self) -> str:
        """``the script ended with AssertionError at model.py:286 (not memory)``."""
        place = f" at {self.location}" if self.location else ""
        return f"{self.ended} ended with {self.error or 'an error'}{place}{self.remark}"

    @property
    def remark(self) -> str:
        """`` (not memory)``, or `` (not device memory)`` where the host had too little; empty for device memory."""
        if self.is_for_memory:
            return ""
        return " (not device memory)" if self._is_for_host_memory else " (not memory)"

    @property
    def _is_for_host_memory(self) -> bool:
        found = find_failures(f"{self.error or 'Error'}: {self.message}")
        return self.error.endswith("MemoryError") or any(one.failure_class == _HOST_MEMORY for one in found)


class _Places:
    """Positions of the failures in the output: the operation of each and the number of started operations."""

    def __init__(self, seen: list[tuple[Failure, int, int]]) -> None:
        self._first_of_all = seen[0][1:] if seen else (-1, 0)
        self._by_line: dict[int | None, tuple[int, int]] = {}
        self._inside: dict[str, tuple[int, int]] = {}
        for failure, operation, started in seen:
            self._by_line[failure.line] = (operation, started)
            if operation >= 0:
                self._inside.setdefault(failure.key, (operation, started))

    def find(self, failure: Failure) -> tuple[int, int]:
        """Return the position of its first print; among overlapping texts, of the last that contains it.

        pytest shows the exception above the captured log, outside any program; a print inside one then tells more.
        """
        first, inside = self._by_line.get(failure.line), self._inside.get(failure.key)
        if first and (first[0] >= 0 or not inside):
            return first
        return inside or self._first_of_all


def failure(profile: Profile) -> RunFailure | None:
    """The failure that ended the run: the first of those after which nothing more was executed.

    Later ones are its echoes in the layers above. When the process went on after every failure, the last one is
    shown: it was caught, but it happened. A warning ends no run.
    """
    found = [item for item in failures(profile) if not item.is_warning]
    memory_related = [item for item in found if item.failure_class != "none"]
    ending = [item for item in (*memory_related, *found) if not item.survived]
    return next(iter(ending or reversed(memory_related or found)), None)


def memory_failure(profile: Profile) -> RunFailure | None:
    """The failure that ended the run because something did not fit; None where the run fits as far as it went."""
    found = failure(profile)
    return found if found is not None and found.is_for_memory and not found.survived else None


def run_end(profile: Profile) -> RunEnd | None:
    """Return the end of a run that stopped early; None also where the source does not show that it stopped."""
    found = failure(profile)
    is_for_memory = memory_failure(profile) is not None
    told = profile.facts.get("ended")
    if isinstance(told, dict):
        error, message, location = (str(told.get(key) or "") for key in ("error", "message", "location"))
        return RunEnd(error, message, location, is_for_memory, bool(told.get("not_judged")), "the script")
    if found is None or found.survived:
        return None
    named = _EXCEPTION.match(found.message)
    error, message = (named["name"], found.message[named.end() :]) if named else ("", found.message)
    return RunEnd(error, message, found.operation_location, is_for_memory)


def diagnose_failure(
    profile: Profile, failure: RunFailure, *, board: str | None = None, context: Context | None = None
) -> Diagnosis:
    """Explain a failure of this profile; ``board`` names where it ran, ``context`` what the text around it names."""
    timeline = next(known for known in profile.timelines if known.rank == failure.rank)
    hints = {"architecture": guess_architecture(profile).name} if "system" in profile.facts else {}
    if "ttnn" in profile.facts:
        hints["release"] = str(profile.facts["ttnn"])
    if board is None and profile.facts.get("board") in BOARDS:
        board = str(profile.facts["board"])
    if failure.operation_index is None:
        hints["place"] = "outside any program"
    told = context or Context()
    # The profile knows which operation was running; a text may only mention one.
    operation = failure.operation_name or told.operation
    return diagnose(
        failure,
        board=board,
        context=replace(told, operation=operation, hints={**told.hints, **hints}),
        live=list(_live(profile, timeline, failure)),
        tensors=list(_candidates(profile, timeline, failure)),
    )


def _candidates(profile: Profile, timeline: Timeline, failure: RunFailure) -> Iterator[KnownTensor]:
    """The tensors that the failing operation was to make or read: one of them is often the one that did not fit."""
    if failure.operation_index is None:
        return
    form = profile.forms[int(timeline.form[failure.operation_index - timeline.first_index])]
    for number in dict.fromkeys((*form.result_types, *form.operand_types)):
        if number >= 0:
            type_ = profile.tensor_types[number]
            yield KnownTensor(type_.shape, type_.dtype, type_.layout)


def _live(profile: Profile, timeline: Timeline, failure: RunFailure) -> Iterator[LiveTensor]:
    operation = failure.operation_index
    if operation is None and not failure.survived:
        operation = timeline.end_index  # outside any program, after everything: what was left
    if failure.memory not in MEMORIES or operation is None:
        return
    for life in _alive(profile, timeline, operation, failure.memory):
        type_ = life.type
        is_typed = bool(type_.layout)  # not a buffer that no tensor of the user's owns
        yield LiveTensor(
            name=life.name,
            memory=failure.memory,
            bytes_per_bank=life.bytes_per_bank,
            shape=type_.shape if is_typed else (),
            dtype=type_.dtype if is_typed else "",
            layout="" if type_.shard_bytes else type_.layout,
            is_weight=life.weight,
            is_input=life.last_use_index == failure.operation_index,
            is_output=life.producer_index is not None and life.producer_index == failure.operation_index,
            is_idle=timeline.buffers is None and _is_idle(life, failure),
            producer=life.producer_name,
            producer_index=life.producer_index,
            location=life.location,
            line=operation_line(timeline, life.producer_index) or None,
            address=life.address,
        )


def _alive(profile: Profile, timeline: Timeline, operation: int, memory: str) -> list[TensorLife]:
    """Return the tensors alive at the failing operation: a capture has every buffer of the last state before it."""
    if timeline.buffers is not None:
        operations = timeline.state_operation
        before = np.flatnonzero((operations >= 0) & (operations <= operation))
        return buffers_in_state(profile, timeline, memory, int(before[-1])) if len(before) else []
    lives = lifetimes(profile, timeline, find_run(timeline, operation), at=operation)
    return [life for life in lives if life.type.memory == memory]


def _is_idle(life: TensorLife, failure: RunFailure) -> bool:
    """Return True if no later operation reads it. A run that ended here cannot show later reads."""
    if not failure.survived or life.weight or failure.operation_index is None:
        return False
    return life.last_use_index is not None and life.last_use_index < failure.operation_index
