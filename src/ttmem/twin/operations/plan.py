# SPDX-License-Identifier: Apache-2.0
"""The plan of an operation: its allocations, launches and frees in order, before any of them is done."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from ttmem.base.errors import BadInputError
from ttmem.hardware import Memory, MemoryMap
from ttmem.twin.errors import DeviceFailureError
from ttmem.twin.programs import DATAFLOW
from ttmem.twin.tensor_spec import InvalidSpecError, NdShard, Shard, TensorSpec

EXACT = "exact"
"""All buffers and static bytes are known; random tests against the library found no difference."""
BOUNDED = "bounded"
"""An estimate: the result is known, temporaries and static buffers are at least what the plan lists."""
UNKNOWN = "unknown"
"""There is no rule; only what the caller says about the result is known."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operation, before it is planned."""

    name: str
    inputs: tuple[TensorSpec, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    memory: Memory | None = None
    """The memory that the caller wants for the result; None: the library's default."""
    in_place: bool = False
    """Whether the result is written into an existing buffer."""
    unknown_options: tuple[str, ...] = ()
    """Options of the call that are not verified against the library."""
    keywords: tuple[str, ...] = ()
    """The keywords of the last inputs, those that are passed by name, in order."""
    tensor_places: tuple[int, ...] = ()
    """The positions of the tensors among the positional arguments."""
    shard: Shard | NdShard | None = None
    """The shard that the caller wants for the result, in ``memory``."""
    signature_mismatch: str = ""
    """The reason why no overload of the newest release accepts these arguments; empty: one does."""
    target: TensorSpec | None = None
    """The existing tensor that the result is written into."""

    @property
    def number_first(self) -> bool:
        """True if a plain value precedes the first tensor: ``pow(2.0, x)``."""
        return self.tensor_places[:1] > (0,)

    def find_input_index(self, keyword: str, position: int | None = None) -> int | None:
        """Return the index of the input with this name or at this position; None: there is none."""
        by_position = len(self.inputs) - len(self.keywords)
        if keyword in self.keywords:
            return by_position + self.keywords.index(keyword)
        return position if position is not None and position < by_position else None

    def tensor(self, keyword: str, position: int | None = None) -> TensorSpec | None:
        """Return the input of this name or position (a bias, a mask); None if it was left out."""
        place = self.find_input_index(keyword, position)
        return None if place is None else self.inputs[place]


@dataclass(frozen=True, slots=True)
class Allocate:
    """A new buffer with a number that later steps refer to."""

    slot: int
    spec: TensorSpec
    cache_key: Hashable = None
    """Not None: the buffer belongs to the cached program, is created once per key and outlives the operation."""


@dataclass(frozen=True, slots=True)
class Free:
    slot: int
    """Negative: an input (-1 the first)."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A program: the sizes of its static buffers in order."""

    buffer_bytes: tuple[int, ...]
    family: str = DATAFLOW
    kept: tuple[Hashable, tuple[tuple[int, ...], ...]] | None = None
    """The key of a program that is cached, and the ``groups`` that a later launch takes."""
    groups: tuple[tuple[int, ...], ...] = ()
    """The sizes by group of cores, in the order of the checks; empty: all cores are alike."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """A refusal of the library, with its message."""

    message: str


KeptSizes = tuple[tuple[int, ...], ...]
"""The `Launch.groups` of a cached program."""
Step = Allocate | Free | Launch | Refuse


SHARDED_RESULT = "a sharded memory_config"
"""An unknown option of a call whose rule does not cover a sharded result."""


class NoRuleError(Exception):
    """Raised where a step of an operation has no rule, so the operation has none."""


class _PlanEndsEarlyError(Exception):
    """Raised where the steps do not fit, so the library never gets to the rule's next question."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of an operation, its results, and the confidence of the plan."""

    steps: tuple[Step, ...]
    results: tuple[tuple[int, TensorSpec], ...]
    """Slot and spec of each result; a negative slot is an input (-1 the first) whose buffer the result shares. Empty:
    there is no rule, or the plan ends in a failure.
    """
    confidence: str
    note: str = ""

    def reshape_result(self, shape: tuple[int, ...]) -> Plan:
        """Return the plan with another shape of its one result."""
        return replace(self, results=tuple((slot, replace(spec, shape=shape)) for slot, spec in self.results))


@dataclass(frozen=True, slots=True)
class TensorHandle:
    """A tensor between two steps: its slot, -1 for the operation's own input."""

    slot: int
    spec: TensorSpec


class PlanBuilder:
    """Collects steps while a rule walks through its sub-operations."""

    def __init__(
        self,
        memory_map: MemoryMap,
        lowest_l1_address: Callable[[Sequence[Step]], int | None] | None = None,
        l1_bytes_taken: int = 0,
        kept_programs: Mapping[Hashable, KeptSizes] | None = None,
    ) -> None:
        """Create an empty plan.

        ``lowest_l1_address`` returns the address of the lowest tensor in L1 after these steps, None if L1 is empty, and
        raises DeviceFailureError if they fail; without it L1 holds only what the plan allocates. ``l1_bytes_taken`` are
        the bytes per bank of the tensors before the operation, ``kept_programs`` the programs of earlier operations
        (`launch_kept`).
        """
        self.memory_map = memory_map
        self.l1_bytes_free = memory_map.l1.bytes_per_bank - l1_bytes_taken
        """Free bytes of a bank when the operation begins, contiguous or not."""
        self._lowest_l1_address = lowest_l1_address
        self._kept_programs = dict(kept_programs or {})
        self._steps: list[Step] = []
        self._slots = 0
        self._notes: list[str] = []

    def l1_space(self) -> int:
        """Return the bytes from L1's base to its lowest tensor after the current steps, which size the blocks."""
        try:
            lowest = self._lowest_l1_address(self._steps) if self._lowest_l1_address else None
        except DeviceFailureError:
            raise _PlanEndsEarlyError from None
        if lowest is not None:
            return lowest - self.memory_map.l1_base_address
        return self.memory_map.l1.bytes_per_bank  # L1_SMALL, at the top of L1, is not available

    def allocate(self, spec: TensorSpec, *, cache_key: Hashable = None) -> int:
        self._slots += 1
        self._steps.append(Allocate(self._slots, spec, cache_key))
        return self._slots

    def free(self, *slots: int) -> None:
        """Free temporaries; inputs (slots below 1) belong to the caller and stay."""
        self._steps += [Free(slot) for slot in slots if slot > 0]

    def free_input(self, place: int) -> None:
        """Free an input that the caller allows the library to free."""
        self._steps.append(Free(-place - 1))

    def launch(self, buffer_bytes: Sequence[int], family: str = DATAFLOW) -> None:
        """Add a program with its static buffers."""
        self._steps.append(Launch(tuple(buffer_bytes), family))

    def launch_kept(
        self,
        key: Hashable,
        groups: Callable[[], Sequence[Sequence[int]]],
        again: KeptSizes | None = None,
        *,
        family: str = DATAFLOW,
    ) -> None:
        """Add a program whose buffers, ``groups``, are sized by the free L1 when it is created.

        The library creates it once for all calls of the same ``key``: later calls run it unchanged, whatever the space
        is then. ``again`` are the sizes of a later launch if they differ.
        """
        sizes = self._kept_programs.get(key) or tuple(map(tuple, groups()))
        self._kept_programs[key] = again or sizes
        self._steps.append(Launch(max(sizes, key=sum), family, kept=(key, again or sizes), groups=sizes))

    def refuse(self, message: str) -> NoReturn:
        """End the plan with this message of the library."""
        self._steps.append(Refuse(message))
        raise _PlanEndsEarlyError

    def estimate(self, why: str) -> None:
        """Record that the operation may need more than the steps: the plan is then not exact."""
        if why not in self._notes:
            self._notes.append(why)

    def finish_with_program(self, result: TensorSpec, buffer_bytes: Sequence[int], family: str = DATAFLOW) -> Plan:
        """Allocate the result, add the one program that writes it, and finish."""
        slot = self.allocate(result)
        self.launch(buffer_bytes, family)
        return self.finish(slot, result)

    def unknown(self, why: str) -> Plan:
        """Return a plan without a rule: not even the result is certain."""
        return no_plan(why)

    def finish(self, result: int, spec: TensorSpec) -> Plan:
        return self.finish_all([(result, spec)])

    def finish_all(self, results: Sequence[tuple[int, TensorSpec]]) -> Plan:
        """Return the plan of an operation with several results."""
        confidence = BOUNDED if self._notes else EXACT
        return Plan(tuple(self._steps), tuple(results), confidence, "; ".join(self._notes))

    def apply(
        self,
        rule: PlanFunction,
        source: TensorHandle,
        memory: Memory | None = None,
        shard: Shard | NdShard | None = None,
        **arguments: Any,
    ) -> TensorHandle:
        """Add another operation and return its result; a view keeps the slot. Without a rule there is no plan."""
        made = rule(Call("", (source.spec,), arguments, memory, shard=shard), self)
        if not made.results:
            raise NoRuleError(made.note)
        ((slot, spec),) = made.results
        return TensorHandle(source.slot if slot < 0 else slot, spec)

    def replace_tensor(self, before: TensorHandle, after: TensorHandle, *, keep: int = 0) -> TensorHandle:
        """Free ``before`` unless it is kept or the same buffer, and return ``after``."""
        if before.slot not in (after.slot, keep):
            self.free(before.slot)
        return after

    def advance(self, rule: PlanFunction, source: TensorHandle, *where: Any, **arguments: Any) -> TensorHandle:
        """Apply another operation and free its source."""
        return self.replace_tensor(source, self.apply(rule, source, *where, **arguments))

    def run_rule(self, rule: Callable[[], Plan]) -> Plan:
        """Return the rule's plan, or the steps before a failure; a call refused before its first step raises."""
        try:
            return rule()
        except _PlanEndsEarlyError:
            return self.finish_all(())
        except NoRuleError as error:
            return no_plan(str(error))
        except (BadInputError, InvalidSpecError) as error:
            if not self._steps:
                raise
            self._steps.append(Refuse(error.message))
            return self.finish_all(())


PlanFunction = Callable[[Call, PlanBuilder], Plan]


def no_plan(why: str) -> Plan:
    return Plan((), (), UNKNOWN, why)


def dimension(value: Any, rank: int, *, new: int = 0) -> int:
    """Return the dimension counted from the front; ``new``: the number of dimensions that the call adds."""
    number, places = int(value), rank + new
    if not -places <= number < places:
        raise BadInputError(f"dimension {number} of a tensor of rank {rank}")
    return number % places


def resolve_axes(dim: Any, rank: int) -> list[int]:
    """Return the dimensions counted from the front, in order; None: all of them."""
    if dim is None:
        return list(range(rank))
    return sorted({dimension(axis, rank) for axis in ([dim] if isinstance(dim, int) else dim)})
