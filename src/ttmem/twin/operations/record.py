# SPDX-License-Identifier: Apache-2.0
"""The record of an operation: all that is known of it, in one value.

Whoever needs to know something of an operation asks its record: the twin what it does to memory, the oracle which
arguments a random call has, the documentation what to list.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ttmem.twin.operations.plan import EXACT, Call, Plan, PlanWriter

T = TypeVar("T")
Step = dict[str, Any]
"""One step of the engines' protocol: ``{"alloc": ...}``, ``{"call": ...}``."""

REQUIRED: Any = object()
"""The default of an argument that has none."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A plain argument of a call, that is: not a tensor, not where the result goes."""

    name: str
    """ttnn's keyword, also the key in ``Call.arguments``."""
    position: int | None = None
    """Its place among the plain arguments that are given without a name; None: by name alone."""
    default: Any = REQUIRED
    samples: tuple[Any, ...] = ()
    """Values that random calls take; empty when its draw in ``tests/oracle/draws`` makes them."""


PlanFunction = Callable[[Call, PlanWriter], Plan]


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """One ttnn operation. Operations of one behaviour share a family: the plan and the way random calls are drawn."""

    name: str
    """Without ``ttnn.``."""
    family: str
    plan: PlanFunction
    """What a call does to memory."""
    example: tuple[Step, ...]
    """The smallest call that shows it at work."""
    arguments: tuple[Argument, ...] = ()
    """All that were compared with the library; a call with any other is not called exact."""
    confidence: str = EXACT
    """Of the example's plan, which stands for plain calls; each call's own plan says how certain it is."""
    takes_shards: bool = False
    """Whether a sharded ``memory_config`` was compared; where it was not, such calls are not called exact."""
    takes_nd_shards: bool = False
    """Whether shards of many dimensions were compared; where they were not, nothing is said of such calls."""
    is_drawn_odd: bool = False
    """Whether random calls also have tensors of rank 0 and 1, and of bfloat4_b and uint8; where they do not, such calls
    are not called exact."""
    needs_tensor: bool = True
    """Whether a call without any tensor is an error; not so for those that make one out of nothing."""
    needs_mesh: bool = False
    """Whether it is something that several chips do together; one chip alone refuses it."""
    takes_host_tensors: bool = False
    """Whether it moves tensors to the device itself when they are on the host."""
    takes_output: bool = False
    """Whether an ``output_tensor`` was compared; where it was not, such calls are not called exact."""
    has_in_place_form: bool = False
    """Whether ``<name>_`` writes into its first tensor."""

    @property
    def aliases(self) -> tuple[str, ...]:
        return (f"{self.name}_",) if self.has_in_place_form else ()

    @property
    def defaults(self) -> Mapping[str, Any]:
        return {argument.name: argument.default for argument in self.arguments if argument.default is not REQUIRED}
