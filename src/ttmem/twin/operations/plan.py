# SPDX-License-Identifier: Apache-2.0
"""What an operation does to memory, written down before it is done: allocations, launches and frees in order."""

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
"""Every buffer and every static byte is known; random tests against the library found no difference."""
BOUNDED = "bounded"
"""An estimate: the result is known, temporaries and static buffers are at least what the plan lists."""
UNKNOWN = "unknown"
"""There is no rule; only what the caller says about the result is known."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operation: what it is given, not yet what it does."""

    name: str
    inputs: tuple[TensorSpec, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    memory: Memory | None = None
    """Where the caller wants the result; None: where the library puts it by itself."""
    in_place: bool = False
    """The result goes into a buffer that is there."""
    unknown_options: tuple[str, ...] = ()
    """Given to the call, and nobody compared with the library what they change."""
    keywords: tuple[str, ...] = ()
    """Of the last inputs, those that were given by name, in order: their names."""
    tensor_places: tuple[int, ...] = ()
    """Where among the arguments without a name the tensors were."""
    shard: Shard | NdShard | None = None
    """How the caller wants the result cut, in the ``memory``."""
    misfit: str = ""
    """Why no overload takes these arguments, in the newest release."""
    target: TensorSpec | None = None
    """What the result is written into, where it is a tensor that is there."""

    @property
    def number_first(self) -> bool:
        """Whether a plain value comes before the first tensor: ``pow(2.0, x)``."""
        return self.tensor_places[:1] > (0,)

    def place_of(self, keyword: str, position: int | None = None) -> int | None:
        """Which of the inputs was given under this name, or at this position; None: none was."""
        by_position = len(self.inputs) - len(self.keywords)
        if keyword in self.keywords:
            return by_position + self.keywords.index(keyword)
        return position if position is not None and position < by_position else None

    def tensor(self, keyword: str, position: int | None = None) -> TensorSpec | None:
        """The input of this name or position (a bias, a mask), None when it was left out."""
        place = self.place_of(keyword, position)
        return None if place is None else self.inputs[place]


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
    """Negative: an input (-1 the first)."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A program: the sizes of its static buffers in order."""

    buffer_bytes: tuple[int, ...]
    family: str = DATAFLOW
    kept: tuple[Hashable, tuple[tuple[int, ...], ...]] | None = None
    """The program is kept under this key, and takes these ``groups`` when it is launched again."""
    groups: tuple[tuple[int, ...], ...] = ()
    """The sizes by group of cores, in the order in which they are checked; empty: all cores are alike."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The library gives up here, with this sentence."""

    message: str


KeptSizes = tuple[tuple[int, ...], ...]
"""`Launch.groups` of a program that is kept."""
Step = Allocate | Free | Launch | Refuse


SHARDED_RESULT = "a sharded memory_config"
"""Among a call's unknown options: its rule says nothing of such a result."""


class NoRuleError(Exception):
    """A step of an operation has no rule, so the operation has none."""


class _PlanEndsEarlyError(Exception):
    """The steps so far do not fit, so the library never gets to what the rule would ask next."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps of an operation, where its results are, and how far the plan can be trusted."""

    steps: tuple[Step, ...]
    results: tuple[tuple[int, TensorSpec], ...]
    """Slot and spec of each; negative slots are inputs (-1 the first): the result shares that buffer. Empty: there is
    no rule, or the plan ends in a failure."""
    confidence: str
    note: str = ""

    def with_shape(self, shape: tuple[int, ...]) -> Plan:
        """The same, its one result under another shape."""
        return replace(self, results=tuple((slot, replace(spec, shape=shape)) for slot, spec in self.results))


class PlanWriter:
    """Collects steps while a rule walks through its sub-operations."""

    def __init__(
        self,
        memory_map: MemoryMap,
        lowest_l1_address: Callable[[Sequence[Step]], int | None] | None = None,
        l1_bytes_taken: int = 0,
        kept_programs: Mapping[Hashable, KeptSizes] | None = None,
    ) -> None:
        """``lowest_l1_address``: where the lowest tensor of L1 begins when these steps are done, None when it is empty;
        without it L1 holds nothing but what the plan allocates there. It raises DeviceFailureError when they fail.
        ``l1_bytes_taken``: of a bank, by tensors that are there before the operation. ``kept_programs``: what earlier
        operations launched (`launch_kept`).
        """
        self.memory_map = memory_map
        self.l1_bytes_free = memory_map.l1.bytes_per_bank - l1_bytes_taken
        """Of a bank when the operation begins, in one piece or not."""
        self._lowest_l1_address = lowest_l1_address
        self._kept_programs = dict(kept_programs or {})
        self._steps: list[Step] = []
        self._slots = 0
        self._notes: list[str] = []

    def l1_space(self) -> int:
        """Bytes from L1's base up to its lowest tensor when the steps so far are done: what blocks are sized by."""
        try:
            lowest = self._lowest_l1_address(self._steps) if self._lowest_l1_address else None
        except DeviceFailureError:
            raise _PlanEndsEarlyError from None
        if lowest is not None:
            return lowest - self.memory_map.l1_base_address
        return self.memory_map.l1.bytes_per_bank  # L1_SMALL is the top of L1 and not to be had

    def allocate(self, spec: TensorSpec, *, cache_key: Hashable = None) -> int:
        self._slots += 1
        self._steps.append(Allocate(self._slots, spec, cache_key))
        return self._slots

    def free(self, *slots: int) -> None:
        """Temporaries die here; inputs (slots below 1) are the caller's."""
        self._steps += [Free(slot) for slot in slots if slot > 0]

    def free_input(self, place: int) -> None:
        """The caller allows it, and the library takes it away."""
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
        """A program that sizes its buffers, ``groups``, by what is left of L1 while it is made. The library makes it
        once for all calls of the same ``key``: later ones run it as it is, whether there is more room by then or less.
        ``again``: what it takes then, where that is something else.
        """
        sizes = self._kept_programs.get(key) or tuple(map(tuple, groups()))
        self._kept_programs[key] = again or sizes
        self._steps.append(Launch(max(sizes, key=sum), family, kept=(key, again or sizes), groups=sizes))

    def refuse(self, message: str) -> NoReturn:
        """The plan ends here: if all before went well, the library says this."""
        self._steps.append(Refuse(message))
        raise _PlanEndsEarlyError

    def estimate(self, why: str) -> None:
        """Note that the operation may need more than the steps say: the plan is then not exact."""
        if why not in self._notes:
            self._notes.append(why)

    def one_program(self, result: TensorSpec, buffer_bytes: Sequence[int], family: str = DATAFLOW) -> Plan:
        """The end of most plans: the result is allocated and one program fills it."""
        slot = self.allocate(result)
        self.launch(buffer_bytes, family)
        return self.finish(slot, result)

    def give_up(self, why: str) -> Plan:
        """No rule covers this call: not even the result is certain."""
        return no_plan(why)

    def finish(self, result: int, spec: TensorSpec) -> Plan:
        return self.finish_all([(result, spec)])

    def finish_all(self, results: Sequence[tuple[int, TensorSpec]]) -> Plan:
        """As `finish`, for an operation that gives several tensors."""
        confidence = BOUNDED if self._notes else EXACT
        return Plan(tuple(self._steps), tuple(results), confidence, "; ".join(self._notes))

    def written_by(self, rule: Callable[[], Plan]) -> Plan:
        """The rule's plan; where its steps fail, or a later one is refused, the steps up to there.

        A call that is refused before it does anything is an error.
        """
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


def no_plan(why: str) -> Plan:
    return Plan((), (), UNKNOWN, why)


def dimension(value: Any, rank: int, *, new: int = 0) -> int:
    """Counted from the front; ``new``: as many more as the call adds."""
    number, places = int(value), rank + new
    if not -places <= number < places:
        raise BadInputError(f"dimension {number} of a tensor of rank {rank}")
    return number % places
