# SPDX-License-Identifier: Apache-2.0
"""Matmul and linear: exact with an explicit multicast configuration, bounded when the library chooses one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.operations import draws
from ttmem.allocator.operations.elementwise import result_like
from ttmem.allocator.operations.plan import BOUNDED, Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.hardware import BFLOAT16, DATA_TYPES, DRAM, FLOAT32
from ttmem.tensors import TensorSpec

_MULTICAST = "ttnn.MatmulMultiCoreReuseMultiCastProgramConfig"


def matmul(call: Call, plan: PlanWriter) -> Plan:
    first, second = call.inputs[:2]
    if call.arguments["transpose_b"] and len(second.shape) > 1:
        second = replace(second, shape=(*second.shape[:-2], second.shape[-1], second.shape[-2]))
    if len(first.shape) < 2 or len(second.shape) < 2 or first.shape[-1] != second.shape[-2]:
        raise BadInputError(
            f"The width of the first tensor must be equal to the height of the second tensor: "
            f"{list(first.shape)} x {list(second.shape)}"
        )
    wanted = call.arguments["dtype"]
    dtype = first.dtype if wanted is None else DATA_TYPES.find(str(wanted))
    # Without a wish the result goes to DRAM, whatever the inputs.
    result = replace(
        result_like(first, call.memory or DRAM, dtype), shape=(*first.shape[:-1], second.shape[-1]), shard=None
    )
    config = call.arguments["program_config"]
    was_compared = config is not None and config.get("new", _MULTICAST) == _MULTICAST and len(call.inputs) == 2
    if not was_compared or call.arguments["transpose_b"]:
        smallest = _blocks(first, second, result, {"per_core_M": 1, "per_core_N": 1, "in0_block_w": 1})
        why = "without a program config the library chooses blocks to fill what is left of L1"
        return plan.one_program(result, smallest, at_least=why)
    return plan.one_program(result, _blocks(first, second, result, config))


def _blocks(first: TensorSpec, second: TensorSpec, result: TensorSpec, config: Mapping[str, Any]) -> list[int]:
    """Input blocks are double buffered when there is more than one along the shared dimension."""
    height, width, depth = (int(config[name]) for name in ("per_core_M", "per_core_N", "in0_block_w"))
    block_height = int(config.get("out_block_h", height))
    block_width = int(config.get("out_block_w", width))
    blocks = -(-first.shape[-1] // 32) // depth
    copies = 2 if blocks > 1 else 1
    out_tiles = block_height * block_width
    sizes = [
        copies * block_height * depth * first.dtype.tile_bytes(),
        copies * block_width * depth * second.dtype.tile_bytes(),
    ]
    inner = FLOAT32 if result.dtype is FLOAT32 else BFLOAT16
    sizes.append(out_tiles * result.dtype.tile_bytes())
    if blocks > 1 and inner is not result.dtype:
        sizes.append(out_tiles * inner.tile_bytes())
    return sizes


def _draw_matmul(record: OperationRecord, choose: Choose) -> list[Step]:
    """With a configuration: without one the library chooses, and the plan is only bounded."""
    rows, depth, columns = (choose.one_of((1, 2, 3, 4, 6, 8)) for _ in range(3))
    first = draws.tensor(choose, [1, 1, rows * 32, depth * 32], tile_only=True)
    second = draws.tensor(choose, [1, 1, depth * 32, columns * 32], tile_only=True)
    config = {
        "compute_with_storage_grid_size": {"tuple": [8, 7]},  # the least of all boards
        "in0_block_w": choose.one_of([d for d in range(1, depth + 1) if depth % d == 0]),
        "out_subblock_h": 1,
        "out_subblock_w": 1,
        "per_core_M": choose.integer(-(-rows // 7), rows),
        "per_core_N": choose.integer(-(-columns // 8), columns),
        "transpose_mcast": False,
        "fused_activation": None,
    }
    named: dict[str, Any] = {"program_config": {"new": _MULTICAST, "kwargs": config}}
    if choose.integer(0, 1):
        named["dtype"] = {"dtype": choose.one_of(("bfloat16", "float32", "bfloat8_b"))}
    return write_call(record.name, [first, second], memory=draws.wish(choose), **named)


def _draw_without_config(record: OperationRecord, choose: Choose) -> list[Step]:
    """As models are written: batches, no configuration, a bias for linear."""
    batch = [choose.one_of((1, 1, 2, 4)), choose.one_of((1, 2))]
    height, depth, width = (choose.one_of(draws.SIZES) for _ in range(3))
    first = draws.tensor(choose, [*batch, height, depth], tile_only=True)
    has_weight = record.name == "linear"
    is_transposed = not choose.integer(0, 2)
    matrix = [width, depth] if is_transposed else [depth, width]
    second = draws.tensor(choose, [1, 1, *matrix] if has_weight else [*batch, *matrix], tile_only=True)
    named = {"transpose_b": True} if is_transposed else {}
    steps = write_call(record.name, [first, second], memory=draws.wish(choose), **named)
    if has_weight and choose.integer(0, 1):
        *made, call = steps
        made.append({"alloc": "bias", **second, "shape": [1, width]})
        steps = [*made, {**call, "kwargs": {**call["kwargs"], "bias": {"tensor": "bias"}}}]
    return steps


RECORDS = tuple(
    record_of(
        write_call(name, [draws.EXAMPLE_TENSOR] * 2),
        matmul,
        _draw_matmul,
        Argument("program_config", default=None),
        Argument("dtype", default=None),
        Argument("transpose_b", default=False),
        family="matmul",
        confidence=BOUNDED,
        draw_bounded=_draw_without_config,
    )
    for name in ("matmul", "linear")
)
