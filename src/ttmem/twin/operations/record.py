# SPDX-License-Identifier: Apache-2.0
"""The record of an operation: its name, rule, example, arguments, and what is verified.

The twin, the oracle and the documentation all read these records.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ttmem.hardware import BFLOAT16, FLOAT32, DataType
from ttmem.twin.operations.plan import EXACT, Call, PlanFunction

T = TypeVar("T")
Step = dict[str, Any]
"""A step of the engines' protocol: ``{"alloc": ...}``, ``{"call": ...}``."""

REQUIRED: Any = object()
"""The default of an argument that has none."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call that is neither a tensor nor the place of the result."""

    name: str
    """ttnn's keyword, also the key in ``Call.arguments``."""
    position: int | None = None
    """Its index among the plain positional arguments; None: by name only."""
    default: Any = REQUIRED
    samples: tuple[Any, ...] = ()
    """Values of random calls; empty if its draw in ``tests/oracle/draws`` makes them."""


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """A ttnn operation. Similar operations share a family: the plan and the draw of random calls."""

    name: str
    """The name without ``ttnn.``."""
    family: str
    plan: PlanFunction
    """The rule that plans a call."""
    example: tuple[Step, ...]
    """A minimal call."""
    arguments: tuple[Argument, ...] = ()
    """The verified arguments; a call with any other is not exact."""
    confidence: str = EXACT
    """The confidence of the example's plan and of plain calls; each plan has its own."""
    verified_with_shards: bool = True
    """Whether a sharded ``memory_config`` is verified; if not, such calls are not exact."""
    verified_with_nd_shards: bool = False
    """Whether ND shards are verified; if not, such calls have no plan."""
    verified_low_rank_and_rare_types: bool = False
    """Whether tensors of rank 0 and 1, and of bfloat4_b and uint8, are verified; if not, such calls are not exact."""
    needs_tensor: bool = True
    """Whether a call without a tensor is an error; false for operations that create tensors."""
    needs_mesh: bool = False
    """Whether it needs several chips; a single chip refuses it."""
    takes_host_tensors: bool = False
    """Whether it moves host tensors to the device itself."""
    verified_output_tensor: bool = False
    """Whether an ``output_tensor`` is verified; if not, such calls are not exact."""
    has_in_place_form: bool = False
    """Whether ``<name>_`` writes into its first tensor."""

    @property
    def aliases(self) -> tuple[str, ...]:
        return (f"{self.name}_",) if self.has_in_place_form else ()

    @property
    def defaults(self) -> Mapping[str, Any]:
        return {argument.name: argument.default for argument in self.arguments if argument.default is not REQUIRED}


KERNEL_CONFIG = Argument("compute_kernel_config", default=None)


def has_float32_sums(call: Call) -> bool:
    return bool((call.arguments["compute_kernel_config"] or {}).get("fp32_dest_acc_en"))


def choose_intermediate_dtype(call: Call) -> DataType:
    """Return the type of data between two kernels."""
    return FLOAT32 if has_float32_sums(call) else BFLOAT16
