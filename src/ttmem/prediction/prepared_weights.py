# SPDX-License-Identifier: Apache-2.0
"""The shape in which the library keeps the weights of a convolution: the twin knows how it deals the work out."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ttmem.base.errors import TtmemError
from ttmem.hardware import DATA_TYPES, DRAM, HOST, MemoryMap
from ttmem.twin.operations import RECORDS, call_of, read_call
from ttmem.twin.operations.plan import Allocate
from ttmem.twin.operations.registry import plan_call
from ttmem.twin.paging import paging_of
from ttmem.twin.tensor_spec import LAYOUTS, TensorSpec

_TILE = 32


def weight_shape(
    step: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], dtype: str, memory_map: MemoryMap
) -> tuple[int, ...] | None:
    """Of a call with these tensors, its weights and bias on the host; None where the twin does not know."""
    written = read_call(step)
    record = RECORDS.get(written.function)
    if record is None:
        return None
    rows, tiles = LAYOUTS.find("row_major"), LAYOUTS.find("tile")
    specs = [
        TensorSpec(shapes[name], DATA_TYPES.find(dtype), rows, DRAM if name == "input" else HOST)
        for name in written.tensors
    ]
    try:
        plan = plan_call(call_of(record, written, specs), memory_map)
    except TtmemError:
        return None
    made = [one.spec for one in plan.steps if isinstance(one, Allocate) and one.spec.layout is tiles]
    weight = next((weight for weight, bias in pairwise(made) if _go_together(weight, bias)), None)
    if weight is None:
        return None
    return weight.shape if weight.alignment == (1, 1) else paging_of(weight).padded_shape


def _go_together(weight: TensorSpec, bias: TensorSpec) -> bool:
    are_matrices = weight.shape[:2] == bias.shape[:2] == (1, 1) and weight.shape[-1] == bias.shape[-1]
    return are_matrices and bias.shape[2] in (1, _TILE) and weight.memory is bias.memory is DRAM
