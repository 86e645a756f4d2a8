# SPDX-License-Identifier: Apache-2.0
"""Tensors created on the device: most are made on the host and copied."""

from dataclasses import replace
from typing import Any

from ttmem.base.arithmetic import ceil_div
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT8_B, BFLOAT16, DATA_TYPES, DRAM, FLOAT32
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import double_buffered_tiles, launch_copy, one_to_one, result_spec
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.to_layout import untilize
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import LAYOUTS, TILE, InvalidSpecError, TensorSpec

_NO_DEVICE = "none"


def _make_spec(call: Call, shape: Any, layout: str) -> TensorSpec:
    dtype = call.arguments.get("dtype")
    return TensorSpec(
        tuple(int(size) for size in shape),
        BFLOAT16 if dtype is None else DATA_TYPES.find(str(dtype)),
        LAYOUTS.find(str(call.arguments.get("layout") or layout).removeprefix("ttnn.")),
        call.memory or DRAM,
    )


def create(call: Call, plan: PlanBuilder) -> Plan:
    """Allocate the tensor; nothing else happens on the device."""
    if call.arguments["device"] is _NO_DEVICE:
        return plan.unknown("a tensor on the host")
    has_blocks = DATA_TYPES.find(str(call.arguments["dtype"] or "bfloat16")).is_block_float
    result = _make_spec(call, call.arguments["shape"], "tile" if has_blocks and call.name != "empty" else "row_major")
    return plan.finish(plan.allocate(result), result)


def arange(call: Call, plan: PlanBuilder) -> Plan:
    """Plan arange, a row of numbers. One number alone is the end."""
    if call.arguments["device"] is _NO_DEVICE:
        return plan.unknown("a tensor on the host")
    start, end, step = (call.arguments[name] for name in ("start", "end", "step"))
    if end is None:
        start, end = 0, start
    if not step:
        raise BadInputError("arange needs a step other than 0")
    result = _make_spec(call, [max(ceil_div(end - start, step), 0)], "row_major")
    return plan.finish(plan.allocate(result), result)


def random(call: Call, plan: PlanBuilder) -> Plan:
    """Generate tiles of random numbers on the device; a row-major result is untilized."""
    if call.arguments["dtype"] not in (None, "bfloat16", "float32"):
        return plan.unknown("random numbers of other types are made as float32 first")
    result = _make_spec(call, call.arguments["shape"], "tile")
    tiles = replace(result, layout=TILE)
    slot = plan.allocate(tiles)
    plan.launch(double_buffered_tiles(tiles), CIRCULAR)
    if result.is_tiled:
        return plan.finish(slot, result)
    rows = untilize(plan, tiles, result)
    plan.free(slot)
    return plan.finish(rows, result)


def like(call: Call, plan: PlanBuilder) -> Plan:
    """Fill tiles of floats with a unary operation; everything else is copied from the host."""
    source = call.inputs[0]
    if call.arguments.get("dtype") is not None:
        return plan.unknown("like a tensor, but of another type")
    result = result_spec(call, source)
    if call.name != "empty_like" and source.is_tiled and source.dtype in (BFLOAT16, FLOAT32, BFLOAT8_B):
        return one_to_one(plan, source, result)
    return plan.finish(plan.allocate(result), result)


def copy(call: Call, plan: PlanBuilder) -> Plan:
    """Copy into an existing tensor."""
    source, target = call.inputs
    if source.shape != target.shape:
        raise InvalidSpecError(
            f"Input tensor shape Shape({list(source.shape)}) does not match output tensor shape "
            f"Shape({list(target.shape)})"
        )
    if source.layout is not target.layout:
        layouts = (f"Layout::{spec.layout.name.upper()}" for spec in (source, target))
        raise InvalidSpecError("Input tensor layout ({}) must equal output tensor layout ({})".format(*layouts))
    if not source.is_tiled and source.dtype is not target.dtype:
        raise InvalidSpecError("Only tile layout supports dtype conversion")
    launch_copy(plan, source, target)
    return plan.finish(-2, target)


_PLACE = (Argument("dtype", default=None), Argument("layout", default=None), Argument("device", default=_NO_DEVICE))
_EXAMPLE_PLACE: dict[str, Any] = {
    "dtype": {"dtype": "bfloat16"},
    "layout": {"layout": "tile"},
    "device": {"device": None},
}
_LIKE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("zeros_like", {}),
    ("ones_like", {}),
    ("empty_like", {}),
    ("full_like", {"fill_value": 2.0}),
)
RECORDS = (
    *(
        build_record(
            format_call(name, [], [64, 64], *values, memory="DRAM", **_EXAMPLE_PLACE),
            rule,
            Argument("shape", 0),
            *([Argument("fill_value", 1)] if values else []),
            *_PLACE,
            family="create",
            needs_tensor=False,
            verified_with_shards=False,
        )
        for name, rule, values in (
            ("zeros", create, ()),
            ("ones", create, ()),
            ("empty", create, ()),
            ("full", create, (1.0,)),
            ("rand", random, ()),
        )
    ),
    build_record(
        format_call("arange", [], 0, 64, 1, memory="DRAM", device={"device": None}),
        arange,
        *(Argument("start", 0, 0), Argument("end", 1, None), Argument("step", 2, 1)),
        *_PLACE,
        family="create",
        needs_tensor=False,
        verified_with_shards=False,
    ),
    *(
        build_record(
            format_call(name, [EXAMPLE_TENSOR], **filling),
            like,
            *([Argument("fill_value")] if name == "full_like" else []),
            Argument("dtype", default=None),
            family="create like",
            verified_low_rank_and_rare_types=True,
        )
        for name, filling in _LIKE
    ),
    build_record(
        format_call("copy", [EXAMPLE_TENSOR] * 2),
        copy,
        verified_low_rank_and_rare_types=True,
        verified_with_shards=False,
    ),
)
