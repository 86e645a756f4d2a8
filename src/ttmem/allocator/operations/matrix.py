# SPDX-License-Identifier: Apache-2.0
"""Matmul and linear: exact with an explicit multicast configuration, bounded when the library chooses one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.operations.elementwise import result_like
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.hardware import BFLOAT16, DATA_TYPES, DRAM, FLOAT32
from ttmem.tensors import TensorSpec


def matmul(call: Call, plan: PlanWriter) -> Plan:
    first, second = call.inputs[:2]
    if len(first.shape) < 2 or len(second.shape) < 2 or first.shape[-1] != second.shape[-2]:
        raise BadInputError(
            f"The width of the first tensor must be equal to the height of the second tensor: "
            f"{list(first.shape)} x {list(second.shape)}"
        )
    dtype = DATA_TYPES.find(str(call.arguments["dtype"])) if "dtype" in call.arguments else first.dtype
    # Without a wish the result goes to DRAM, whatever the inputs.
    result = replace(
        result_like(first, call.memory or DRAM, dtype), shape=(*first.shape[:-1], second.shape[-1]), shard=None
    )
    slot = plan.allocate(result)
    config = call.arguments.get("program_config")
    if config is None:
        smallest = _blocks(first, second, result, {"per_core_M": 1, "per_core_N": 1, "in0_block_w": 1})
        plan.launch_at_least(smallest, "without a program config the library chooses blocks to fill what is left of L1")
    else:
        plan.launch(_blocks(first, second, result, config))
    return plan.finish(slot, result)


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
