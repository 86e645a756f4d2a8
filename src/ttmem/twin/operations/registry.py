# SPDX-License-Identifier: Apache-2.0
"""All records, and what a call does to memory by them.

To add an operation, write its record at the end of the file of its family (``elementwise``, ``unary``, ...) and its
draw in ``tests/oracle/draws``; name a new file in ``FAMILIES``. Everything else asks ``RECORDS``: the twin, the oracle,
``ttmem ops map`` and the documentation.
"""

import re
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module

from ttmem.base import toml
from ttmem.base.errors import BadInputError
from ttmem.hardware import DEFAULT_RELEASE, DRAM, HOST, L1, TILE_32X32, MemoryMap, Registry, Release
from ttmem.twin.operations.plan import (
    BOUNDED,
    EXACT,
    SHARDED_RESULT,
    Allocate,
    Call,
    KeptSizes,
    Plan,
    PlanWriter,
    Refuse,
    Step,
    no_plan,
)
from ttmem.twin.operations.record import OperationRecord
from ttmem.twin.tensor_spec import InvalidSpecError, NdShard

FAMILIES = (
    "unary",
    "elementwise",
    "binary",
    "pad",
    "permute",
    "reshape",
    "reductions",
    "matmul",
    "addmm",
    "cumsum_prod_var",
    "attention",
    "attention_decode",
    "conv2d",
    "creation",
    "embedding",
    "concat",
    "roll",
    "normalization",
    "pool",
    "adaptive_pool",
    "repeat",
    "argmax",
    "softmax",
    "topk",
    "slice_",
    "split",
    "to_layout",
    "tilize_untilize",
    "upsample",
    "heads",
    "decode_heads",
    "caches",
    "rotary",
    "rotary_llama",
    "grid_sample",
    "where",
    "memory_config",
    "gather_scatter",
    "collectives",
    "mesh_transfers",
    "async_collectives",
)
"""The modules of this package that have records; a test compares the list with the folder."""
RECORDS: Registry[OperationRecord] = Registry(
    "operation",
    (record for family in FAMILIES for record in import_module(f"{__package__}.{family}").RECORDS),
    fold=lambda name: name.removeprefix("ttnn."),
)
NO_RECORD = "none"
"""The certainty about an operation that has no record."""
_LEVELS = (EXACT, BOUNDED, NO_RECORD)
_COMPARED_TYPES = ("bfloat16", "float32", "bfloat8_b", "uint32", "int32", "uint16")
_MANY_DIMENSIONS = "shards of many dimensions were not compared"
_RESULT_WORDS = re.compile(r"dtype|layout|dim|shape|by position|_output|^out|^persistent")
_OTHER_TILES = "other tiles were not compared"
_ODD_TYPES = ("bfloat4_b", "uint8")


def _only_results(plan: Plan) -> Plan:
    """What is certain of a call that may be done in another way."""
    slots = {slot for slot, _ in plan.results}
    return replace(plan, steps=tuple(step for step in plan.steps if isinstance(step, Allocate) and step.slot in slots))


def _says_result(option: str) -> bool:
    """Whether an argument that nobody compared may change what the result is, or where it lies."""
    return option == SHARDED_RESULT or _RESULT_WORDS.search(option) is not None


@cache
def checked_in(release: Release) -> Container[str]:
    """The operations whose rules agree with an older release (with the newest all do: the tests ask it)."""
    listed = toml.load_packaged(__package__, "checked.toml")["release"]
    return frozenset(name for one in listed if one["name"] == release.name for name in one["operations"])


def confidence_in(operations: Iterable[str]) -> str:
    """How certain the twin is of plain calls of these operations, taken together: exact, bounded or none."""
    found = (RECORDS.get(name) for name in operations)
    return max((record.confidence if record else NO_RECORD for record in found), key=_LEVELS.index, default=EXACT)


def plan_call(
    call: Call,
    memory_map: MemoryMap,
    lowest_l1_address: Callable[[Sequence[Step]], int | None] | None = None,
    l1_bytes_taken: int = 0,
    kept_programs: Mapping[Hashable, KeptSizes] | None = None,
) -> Plan:
    """What a call does to memory; an operation without a record has an empty plan that says so.

    ``lowest_l1_address``, ``l1_bytes_taken``, ``kept_programs``: see `PlanWriter`; without them the device is empty.
    """
    record = RECORDS.get(call.name)
    if record is None:
        return no_plan(f"no rule for {call.name}")
    if call.misfit:
        if memory_map.release is DEFAULT_RELEASE:
            raise BadInputError(call.misfit)
        return no_plan(f"{call.misfit}: so it is in {DEFAULT_RELEASE}")
    if not call.inputs and record.needs_tensor:
        raise BadInputError(f"{call.name} needs a tensor")
    arguments = {**record.defaults, **call.arguments} if record.arguments else call.arguments
    known_call = replace(call, name=record.name, arguments=arguments)
    writer = PlanWriter(memory_map, lowest_l1_address, l1_bytes_taken, kept_programs)
    doubt = _outside_the_tests(call, memory_map, record)
    try:
        plan = writer.written_by(lambda: record.plan(known_call, writer))
    except KeyError as missing:
        if call.unknown_options:  # under another name perhaps
            return no_plan(doubt)
        raise BadInputError(f"{call.name} needs the argument {missing}") from None
    except (TypeError, ValueError, IndexError, AttributeError, ArithmeticError):
        # Tensors or arguments of a form that nobody thought of: the library may take them.
        return no_plan(f"the rule of ttnn.{record.name} does not know arguments of this form")
    except (BadInputError, InvalidSpecError):
        if call.unknown_options:  # which may be what makes the library take it
            return no_plan(doubt)
        raise
    if not doubt:
        return plan
    if doubt in (_MANY_DIMENSIONS, _OTHER_TILES) or any(map(_says_result, call.unknown_options)):
        return no_plan(doubt)  # not even the result is certain
    if call.unknown_options and plan.steps and isinstance(plan.steps[-1], Refuse):
        return no_plan(doubt)
    if memory_map.release is DEFAULT_RELEASE:
        plan = _only_results(plan)
    level, notes = BOUNDED if plan.confidence == EXACT else plan.confidence, dict.fromkeys((plan.note, doubt))
    return replace(plan, confidence=level, note="; ".join(filter(None, notes)))


def _outside_the_tests(call: Call, memory_map: MemoryMap, record: OperationRecord) -> str:
    """Why a rule that is exact elsewhere may not be so here: nobody compared it with the library."""
    release = memory_map.release
    if release is not DEFAULT_RELEASE and record.name not in checked_in(release):
        return f"the rule of ttnn.{record.name} is that of {DEFAULT_RELEASE}: it was not compared with {release}"
    if isinstance(call.shard, NdShard) and not record.takes_nd_shards:
        return _MANY_DIMENSIONS
    for spec in call.inputs:
        if spec.memory is HOST:
            continue
        if isinstance(spec.shard, NdShard) and not record.takes_nd_shards:
            return _MANY_DIMENSIONS
        if not spec.elements:
            return "tensors without elements were not compared: some kill the library"
        if not record.is_drawn_odd and len(spec.shape) < 2:
            return "tensors of rank 0 and 1 were not compared"
        types = (*_COMPARED_TYPES, *_ODD_TYPES) if record.is_drawn_odd else _COMPARED_TYPES
        if not spec.is_tiled and spec.alignment != (1, 1):
            return "rows that are longer than their tensor says, out of shards, were not compared"
        if spec.tile != TILE_32X32:
            return _OTHER_TILES
        if spec.memory not in (DRAM, L1) or spec.dtype.name not in types:
            return "other memories and data types were not compared"
    if call.unknown_options:
        return f"calls with {', '.join(call.unknown_options)} were not compared"
    return ""
