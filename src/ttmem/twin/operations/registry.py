# SPDX-License-Identifier: Apache-2.0
"""The records of all operations, and the plan of a call.

To add an operation, add its record at the end of the file of its family (``elementwise``, ``unary``, ...) and its draw
to ``tests/oracle/draws``; add a new file to ``FAMILIES``. The twin, the oracle, ``ttmem ops map`` and the documentation
read ``RECORDS``.
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
    PlanBuilder,
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
    "grid_sample",
    "where",
    "memory_config",
    "gather_scatter",
    "collectives",
    "mesh_transfers",
)
"""The modules of this package that have records; a test compares the list with the folder."""
RECORDS: Registry[OperationRecord] = Registry(
    "operation",
    (record for family in FAMILIES for record in import_module(f"{__package__}.{family}").RECORDS),
    fold=lambda name: name.removeprefix("ttnn."),
)
NO_RECORD = "none"
"""The confidence of an operation without a record."""
_LEVELS = (EXACT, BOUNDED, NO_RECORD)
_VERIFIED_TYPES = ("bfloat16", "float32", "bfloat8_b", "uint32", "int32", "uint16")
_UNVERIFIED_ND_SHARDS = "ND shards are not verified"
_RESULT_WORDS = re.compile(r"dtype|layout|dim|shape|by position|_output|^out|^persistent")
_UNVERIFIED_TILES = "other tile shapes are not verified"
_RARE_TYPES = ("bfloat4_b", "uint8")


def _keep_results(plan: Plan) -> Plan:
    """Return a plan with its results alone, for a call that may run in another way."""
    slots = {slot for slot, _ in plan.results}
    return replace(plan, steps=tuple(step for step in plan.steps if isinstance(step, Allocate) and step.slot in slots))


def _may_change_result(option: str) -> bool:
    """Return whether an unverified argument may change the result or its memory."""
    return option == SHARDED_RESULT or _RESULT_WORDS.search(option) is not None


@cache
def load_checked_operations(release: Release) -> Container[str]:
    """Return the operations whose rules are verified against an older release."""
    listed = toml.load_packaged(__package__, "checked.toml")["release"]
    return frozenset(name for one in listed if one["name"] == release.name for name in one["operations"])


def combine_confidence(operations: Iterable[str]) -> str:
    """Return the lowest confidence of plain calls of these operations: exact, bounded or none."""
    found = (RECORDS.get(name) for name in operations)
    return max((record.confidence if record else NO_RECORD for record in found), key=_LEVELS.index, default=EXACT)


def plan_call(
    call: Call,
    memory_map: MemoryMap,
    lowest_l1_address: Callable[[Sequence[Step]], int | None] | None = None,
    l1_bytes_taken: int = 0,
    kept_programs: Mapping[Hashable, KeptSizes] | None = None,
) -> Plan:
    """Return the plan of a call; an operation without a record has an empty plan that says so.

    ``lowest_l1_address``, ``l1_bytes_taken``, ``kept_programs``: see `PlanBuilder`; without them the device is empty.
    """
    record = RECORDS.get(call.name)
    if record is None:
        return no_plan(f"no rule for {call.name}")
    if call.signature_mismatch:
        if memory_map.release is DEFAULT_RELEASE:
            raise BadInputError(call.signature_mismatch)
        return no_plan(f"{call.signature_mismatch} (in {DEFAULT_RELEASE})")
    if not call.inputs and record.needs_tensor:
        raise BadInputError(f"{call.name} needs a tensor")
    arguments = {**record.defaults, **call.arguments} if record.arguments else call.arguments
    known_call = replace(call, name=record.name, arguments=arguments)
    builder = PlanBuilder(memory_map, lowest_l1_address, l1_bytes_taken, kept_programs)
    reason = _find_unverified(call, memory_map, record)
    try:
        plan = builder.run_rule(lambda: record.plan(known_call, builder))
    except KeyError as missing:
        if call.unknown_options:  # perhaps it has another name
            return no_plan(reason)
        raise BadInputError(f"{call.name} needs the argument {missing}") from None
    except (TypeError, ValueError, IndexError, AttributeError, ArithmeticError):
        # Tensors or arguments of an unexpected form: the library may accept them.
        return no_plan(f"the rule of ttnn.{record.name} does not cover arguments of this form")
    except (BadInputError, InvalidSpecError):
        if call.unknown_options:  # they may be why the library accepts the call
            return no_plan(reason)
        raise
    if not reason:
        return plan
    if reason in (_UNVERIFIED_ND_SHARDS, _UNVERIFIED_TILES) or any(map(_may_change_result, call.unknown_options)):
        return no_plan(reason)  # not even the result is certain
    if call.unknown_options and plan.steps and isinstance(plan.steps[-1], Refuse):
        return no_plan(reason)
    if memory_map.release is DEFAULT_RELEASE:
        plan = _keep_results(plan)
    level, notes = BOUNDED if plan.confidence == EXACT else plan.confidence, dict.fromkeys((plan.note, reason))
    return replace(plan, confidence=level, note="; ".join(filter(None, notes)))


def _find_unverified(call: Call, memory_map: MemoryMap, record: OperationRecord) -> str:
    """Return the reason why a rule is not verified for this call; empty: it is."""
    release = memory_map.release
    if release is not DEFAULT_RELEASE and record.name not in load_checked_operations(release):
        return f"the rule of ttnn.{record.name} is that of {DEFAULT_RELEASE}: it is not verified for {release}"
    if isinstance(call.shard, NdShard) and not record.verified_with_nd_shards:
        return _UNVERIFIED_ND_SHARDS
    for spec in call.inputs:
        if spec.memory is HOST:
            continue
        if isinstance(spec.shard, NdShard) and not record.verified_with_nd_shards:
            return _UNVERIFIED_ND_SHARDS
        if not spec.elements:
            return "tensors without elements are not verified: some crash the library"
        if not record.verified_low_rank_and_rare_types and len(spec.shape) < 2:
            return "tensors of rank 0 and 1 are not verified"
        types = (*_VERIFIED_TYPES, *_RARE_TYPES) if record.verified_low_rank_and_rare_types else _VERIFIED_TYPES
        if not spec.is_tiled and spec.alignment != (1, 1):
            return "interleaved tensors with padded rows are not verified"
        if spec.tile != TILE_32X32:
            return _UNVERIFIED_TILES
        if spec.memory not in (DRAM, L1) or spec.dtype.name not in types:
            return "other memories and data types are not verified"
    if call.unknown_options:
        return f"calls with {', '.join(call.unknown_options)} are not verified"
    return ""
