# SPDX-License-Identifier: Apache-2.0
"""What an operation does to memory, written down before it is done: allocations, launches and frees in order."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.programs import DATAFLOW
from ttmem.hardware import Memory, MemoryMap
from ttmem.tensors import TensorSpec

EXACT = "exact"
"""Every buffer and every static byte is known; random tests against the library found no difference."""
BOUNDED = "bounded"
"""The result is known; temporaries and static buffers are at least what is listed."""
UNKNOWN = "unknown"
"""There is no rule; only what the caller says about the result is known."""
_ORDER = (EXACT, BOUNDED, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operation: what it is given, not yet what it does."""

    name: str
    inputs: tuple[TensorSpec, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    memory: Memory | None = None
    """Where the caller wants the result (interleaved); None: where the library puts it by itself."""
    in_place: bool = False
    """The result goes into a buffer that is there."""
    unknown_options: tuple[str, ...] = ()
    """Given to the call, and nobody compared with the library what they change."""


@dataclass(frozen=True, slots=True)
class Allocate:
    """A new buffer under a number that later steps use."""

    slot: int
    spec: TensorSpec
    cache_key: Hashable = None
    """Not None: the buffer belongs to the cached program, is made once per key and outlives the operation."""


@dataclass(frozen=True, slots=True)
class Free:
    slot: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A program: the sizes of its static buffers in order; `at_least` marks a sum that may be larger in truth."""

    buffer_bytes: tuple[int, ...]
    family: str = DATAFLOW
    at_least: bool = False


Step = Allocate | Free | Launch


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps of an operation, where its result is, and how far the plan can be trusted."""

    steps: tuple[Step, ...]
    result: int | None
    """The slot of the result; negative numbers are inputs (-1 the first): the result shares that buffer."""
    result_spec: TensorSpec | None
    confidence: str
    note: str = ""


class PlanWriter:
    """Collects steps while a rule walks through its sub-operations."""

    def __init__(self, memory_map: MemoryMap) -> None:
        self.memory_map = memory_map
        self._steps: list[Step] = []
        self._slots = 0
        self._confidence = EXACT
        self._notes: list[str] = []

    def allocate(self, spec: TensorSpec, *, cache_key: Hashable = None) -> int:
        self._slots += 1
        self._steps.append(Allocate(self._slots, spec, cache_key))
        return self._slots

    def free(self, *slots: int) -> None:
        """Temporaries die here; inputs (slots below 1) are the caller's."""
        self._steps += [Free(slot) for slot in slots if slot > 0]

    def launch(self, buffer_bytes: Sequence[int], family: str = DATAFLOW, *, at_least: str = "") -> None:
        """A program. ``at_least`` says why its static part is known only from below; the plan is then bounded."""
        self._steps.append(Launch(tuple(buffer_bytes), family, bool(at_least)))
        if at_least:
            self.doubt(BOUNDED, at_least)

    def doubt(self, confidence: str, why: str) -> None:
        if _ORDER.index(confidence) > _ORDER.index(self._confidence):
            self._confidence = confidence
        if why not in self._notes:
            self._notes.append(why)

    def one_program(
        self, result: TensorSpec, buffer_bytes: Sequence[int], family: str = DATAFLOW, *, at_least: str = ""
    ) -> Plan:
        """The end of most plans: the result is allocated and one program fills it."""
        slot = self.allocate(result)
        self.launch(buffer_bytes, family, at_least=at_least)
        return self.finish(slot, result)

    def give_up(self, why: str) -> Plan:
        """No rule covers this call: not even the result is certain."""
        return Plan((), None, None, UNKNOWN, why)

    def finish(self, result: int, spec: TensorSpec) -> Plan:
        return Plan(tuple(self._steps), result, spec, self._confidence, "; ".join(self._notes))


def dimension(value: Any, rank: int, *, new: int = 0) -> int:
    """Counted from the front; ``new``: as many more as the call adds."""
    number, places = int(value), rank + new
    if not -places <= number < places:
        raise BadInputError(f"dimension {number} of a tensor of rank {rank}")
    return number % places
