# SPDX-License-Identifier: Apache-2.0
"""Tensors out of nothing, or like another one: most are made on the host and sent to the device."""

from dataclasses import replace
from typing import Any

from ttmem.base.arithmetic import ceil_div
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT8_B, BFLOAT16, DATA_TYPES, DRAM, FLOAT32
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, record_of, write_call
from ttmem.twin.operations.elementwise import double_buffered_tiles, one_to_one, wanted_like
from ttmem.twin.operations.fill_and_copy import launch_copy
from ttmem.twin.operations.plan import Call, Plan, PlanWriter
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.to_layout import untilize
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import LAYOUTS, TILE, InvalidSpecError, TensorSpec

_NO_DEVICE = "none"


def _described(call: Call, shape: Any, layout: str) -> TensorSpec:
    dtype = call.arguments.get("dtype")
    return TensorSpec(
        tuple(int(size) for size in shape),
        BFLOAT16 if dtype is None else DATA_TYPES.find(str(dtype)),
        LAYOUTS.find(str(call.arguments.get("layout") or layout).removeprefix("ttnn.")),
        call.memory or DRAM,
    )


def create(call: Call, plan: PlanWriter) -> Plan:
    """Nothing but the tensor."""
    if call.arguments["device"] is _NO_DEVICE:
        return plan.give_up("a tensor on the host")
    has_blocks = DATA_TYPES.find(str(call.arguments["dtype"] or "bfloat16")).is_block_float
    result = _described(call, call.arguments["shape"], "tile" if has_blocks and call.name != "empty" else "row_major")
    return plan.finish(plan.allocate(result), result)


def arange(call: Call, plan: PlanWriter) -> Plan:
    """A row, as long as there are numbers. One number alone is the end."""
    if call.arguments["device"] is _NO_DEVICE:
        return plan.give_up("a tensor on the host")
    start, end, step = (call.arguments[name] for name in ("start", "end", "step"))
    if end is None:
        start, end = 0, start
    if not step:
        raise BadInputError("arange needs a step other than 0")
    result = _described(call, [max(ceil_div(end - start, step), 0)], "row_major")
    return plan.finish(plan.allocate(result), result)


def random(call: Call, plan: PlanWriter) -> Plan:
    """Tiles of random numbers, made on the device; rows are untilized."""
    if call.arguments["dtype"] not in (None, "bfloat16", "float32"):
        return plan.give_up("random numbers of other types are made as float32 first")
    result = _described(call, call.arguments["shape"], "tile")
    tiles = replace(result, layout=TILE)
    slot = plan.allocate(tiles)
    plan.launch(double_buffered_tiles(tiles), CIRCULAR)
    if result.is_tiled:
        return plan.finish(slot, result)
    rows = untilize(plan, tiles, result)
    plan.free(slot)
    return plan.finish(rows, result)


def like(call: Call, plan: PlanWriter) -> Plan:
    """Tiles of floats are filled by a unary operation, anything else comes from the host."""
    source = call.inputs[0]
    if call.arguments.get("dtype") is not None:
        return plan.give_up("like a tensor, but of another type")
    result = wanted_like(call, source)
    if call.name != "empty_like" and source.is_tiled and source.dtype in (BFLOAT16, FLOAT32, BFLOAT8_B):
        return one_to_one(plan, source, result)
    return plan.finish(plan.allocate(result), result)


def copy(call: Call, plan: PlanWriter) -> Plan:
    """Into a tensor that is there."""
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
        record_of(
            write_call(name, [], [64, 64], *values, memory="DRAM", **_EXAMPLE_PLACE),
            rule,
            Argument("shape", 0),
            *([Argument("fill_value", 1)] if values else []),
            *_PLACE,
            family="create",
            needs_tensor=False,
        )
        for name, rule, values in (
            ("zeros", create, ()),
            ("ones", create, ()),
            ("empty", create, ()),
            ("full", create, (1.0,)),
            ("rand", random, ()),
        )
    ),
    record_of(
        write_call("arange", [], 0, 64, 1, memory="DRAM", device={"device": None}),
        arange,
        *(Argument("start", 0, 0), Argument("end", 1, None), Argument("step", 2, 1)),
        *_PLACE,
        family="create",
        needs_tensor=False,
    ),
    *(
        record_of(
            write_call(name, [EXAMPLE_TENSOR], **filling),
            like,
            *([Argument("fill_value")] if name == "full_like" else []),
            Argument("dtype", default=None),
            family="create like",
            is_drawn_odd=True,
            takes_shards=True,
        )
        for name, filling in _LIKE
    ),
    record_of(write_call("copy", [EXAMPLE_TENSOR] * 2), copy, is_drawn_odd=True),
)
