# SPDX-License-Identifier: Apache-2.0
"""All records, and what a call does to memory by them.

To add an operation, write its record at the end of the file of its family (``elementwise``, ``movement``, ...). Nothing
else has to be kept in step: the twin, the oracle, ``ttmem ops map`` and the documentation ask ``RECORDS``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ttmem._errors import BadInputError
from ttmem.allocator.operations import (
    attention,
    convolution,
    elementwise,
    matrix,
    movement,
    normalisation,
    permutation,
    pooling,
    reductions,
    reshaping,
    tilizing,
    upsampling,
)
from ttmem.allocator.operations.plan import BOUNDED, EXACT, Call, Plan, PlanWriter, Step, no_plan
from ttmem.allocator.operations.record import OperationRecord
from ttmem.hardware import DEFAULT_RELEASE, DRAM, HOST, L1, TILE_32X32, MemoryMap, Registry

_FAMILIES = (
    elementwise,
    movement,
    permutation,
    pooling,
    reshaping,
    reductions,
    matrix,
    convolution,
    tilizing,
    upsampling,
    normalisation,
    attention,
)
RECORDS: Registry[OperationRecord] = Registry(
    "operation",
    (record for family in _FAMILIES for record in family.RECORDS),
    fold=lambda name: name.removeprefix("ttnn."),
)
NO_RECORD = "none"
"""The certainty about an operation that has no record."""
_LEVELS = (EXACT, BOUNDED, NO_RECORD)
_COMPARED_TYPES = ("bfloat16", "float32", "bfloat8_b", "uint32", "int32", "uint16")


def confidence_in(operations: Iterable[str]) -> str:
    """How certain the twin is of plain calls of these operations, taken together: exact, bounded or none."""
    found = (RECORDS.get(name) for name in operations)
    return max((record.confidence if record else NO_RECORD for record in found), key=_LEVELS.index, default=EXACT)


def plan_call(
    call: Call,
    memory_map: MemoryMap,
    lowest_l1_address: Callable[[Sequence[Step]], int | None] | None = None,
    l1_bytes_taken: int = 0,
) -> Plan:
    """What a call does to memory; an operation without a record has an empty plan that says so.

    ``lowest_l1_address``, ``l1_bytes_taken``: see `PlanWriter`; without them the device holds nothing.
    """
    record = RECORDS.get(call.name)
    if record is None:
        return no_plan(f"no rule for {call.name}")
    if not call.inputs and record.needs_tensor:
        raise BadInputError(f"{call.name} needs a tensor")
    arguments = {**record.defaults, **call.arguments} if record.arguments else call.arguments
    known_call = replace(call, name=record.name, arguments=arguments)
    writer = PlanWriter(memory_map, lowest_l1_address, l1_bytes_taken)
    try:
        plan = writer.written_by(lambda: record.plan(known_call, writer))
    except KeyError as missing:
        raise BadInputError(f"{call.name} needs the argument {missing}") from None
    doubt = _outside_the_tests(call, memory_map)
    if doubt and plan.confidence == EXACT:
        return replace(plan, confidence=BOUNDED, note=doubt, is_bounded_above=False)
    return plan


def _outside_the_tests(call: Call, memory_map: MemoryMap) -> str:
    """Why a rule that is exact elsewhere may not be so here: nobody compared it with the library."""
    if memory_map.release is not DEFAULT_RELEASE:
        return f"the rules of operations are those of {DEFAULT_RELEASE}"
    for spec in call.inputs:
        if spec.memory is HOST:
            continue
        if len(spec.shape) < 2 or not spec.elements:
            return "tensors of rank 0 and 1, or without elements, were not compared"
        if spec.tile != TILE_32X32 or spec.memory not in (DRAM, L1) or spec.dtype.name not in _COMPARED_TYPES:
            return "other tiles, memories and data types were not compared"
    if call.unknown_options:
        return f"calls with {', '.join(call.unknown_options)} were not compared"
    return ""
