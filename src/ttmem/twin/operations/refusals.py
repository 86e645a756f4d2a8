# SPDX-License-Identifier: Apache-2.0
"""How the library refuses a call whose results are there already: mostly it looks at the tensors only then."""

from collections.abc import Iterable, Sequence

from ttmem.hardware import L1
from ttmem.twin.operations.plan import PlanWriter
from ttmem.twin.tensor_spec import Shard, TensorSpec


def spell_layout(spec: TensorSpec) -> str:
    """As the library's messages do."""
    return "Layout::TILE" if spec.is_tiled else "Layout::ROW_MAJOR"


def spell_cut(spec: TensorSpec) -> str:
    """As the library's messages do; of shards of many dimensions as of pages: no rule gets that far with them."""
    cut = f"{spec.shard.kind.upper()}_SHARDED" if isinstance(spec.shard, Shard) else "INTERLEAVED"
    return f"TensorMemoryLayout::{cut}"


def allocated(plan: PlanWriter, results: Sequence[TensorSpec], faults: Iterable[str]) -> list[int]:
    """The results' slots; with the first fault, in the library's words, the plan ends."""
    slots = [plan.allocate(spec) for spec in results]
    why = next(iter(faults), "")
    if why:
        plan.refuse(why)
    return slots


def not_in_l1(buffer: str, parameter: str, spec: TensorSpec) -> str:
    """What is said of a program that works in place on something that is not in L1; empty: it is."""
    if spec.memory is L1:
        return ""
    return (
        f"DFB '{buffer}' borrows memory from TensorParameter '{parameter}', but its TensorSpec is not L1-resident (L1 "
        "is required). Both L1 and L1_SMALL are accepted."
    )
