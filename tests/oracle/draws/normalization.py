# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.normalization``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from oracle.draws.sample import draw_kernel_config
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, format_call
from ttmem.twin.operations.normalization import NORM_CONFIG, ONE_CORE
from ttmem.twin.operations.record import OperationRecord, Step


def _draw_norm_shards(choose: Choose) -> tuple[Step, dict[str, Any]]:
    """A tensor in blocks that the norms take, and the arguments that say so."""
    kind, columns, rows = choose.one_of(("width", "block")), choose.integer(1, 7), choose.integer(1, 7)
    high, wide = choose.integer(1, 3), choose.integer(1, 4)
    by_column = not choose.integer(0, 3)
    across = columns * rows if kind == "width" else rows if by_column else columns
    down = 1 if kind == "width" else columns if by_column else rows
    shard = {
        "kind": kind,
        "shape": [32 * high, 32 * wide],
        "ranges": [[0, 0, columns - 1, rows - 1]],
        "orientation": "col" if by_column else "row",
    }
    source = {
        **EXAMPLE_TENSOR,
        "shape": [1, 1, 32 * high * down, 32 * wide * across - choose.one_of((0, 0, 5))],
        "dtype": choose.one_of(("bfloat16", "bfloat16", "float32", "bfloat8_b")),
        "memory": "L1",
        "shard": shard,
    }
    named: dict[str, Any] = {}
    if choose.integer(0, 1):
        named["memory_config"] = {"memory": "L1", "shard": shard}
    if choose.integer(0, 1):
        sizes = {"subblock_w": 1, "block_h": high, "block_w": wide, "inplace": bool(choose.integer(0, 1))}
        grid = {"tuple": [columns, rows]}
        named["program_config"] = {"new": NORM_CONFIG, "kwargs": {"compute_with_storage_grid_size": grid, **sizes}}
    return source, named


def draw_row_norm(record: OperationRecord, choose: Choose) -> list[Step]:
    source, sharded = _draw_norm_shards(choose) if not choose.integer(0, 3) else ({}, {})
    if not source:
        source = sample.tensor(choose, tile_only=record.name == "rms_norm", most=4, odd=True)
    if "shard" not in source and (choose.integer(0, 1) or not source["shape"]):
        source["shape"][-1:] = [choose.one_of((384, 768, 1024, 2048, 4096, 5000, 8192, 16384, 32768))]
    if "shard" not in source:
        source, sharded = sample.among_shards(choose, source)
    width = source["shape"][-1]
    by_rows = width % 32 == 0 and not choose.integer(0, 3)
    tensors, named = [source], dict[str, Any]()
    for name, shape in (("weight", [1, width]), ("bias", [1, width]), ("residual_input_tensor", source["shape"])):
        if not choose.integer(0, 2 if "residual" in name else 1):
            named[name] = {"tensor": f"t{len(tensors)}"}
            tensors.append(sample.among_shards(choose, sample.tensor(choose, shape, tile_only=True))[0])
            if "residual" in name and "shard" in source:
                tensors[-1] = source
            if not choose.integer(0, 3) and "residual" not in name:
                tensors[-1] = {**tensors[-1], "shape": [width], "shard": None}
            if by_rows and "residual" not in name:
                tensors[-1] |= {"shape": [1, 1, width // 32, 32], "layout": "row_major", "dtype": "bfloat16"}
                tensors[-1]["shard"] = None
    named |= sample.options(record, choose)[1]
    *made, call = format_call(record.name, tensors, **sharded, **named, **draw_kernel_config(choose))
    return [*made, {**call, "args": call["args"][:1]}]


def draw_batch_norm(record: OperationRecord, choose: Choose) -> list[Step]:
    batch, channels = choose.integer(1, 3), choose.one_of((1, 3, 16, 32, 33, 64, 100))
    sizes = [batch, channels, choose.one_of(sample.SIZES), choose.one_of(sample.SIZES)]
    types = [choose.one_of(("bfloat16", "bfloat16", "float32", "bfloat8_b")) for _ in range(2)]
    names = ["running_mean", "running_var", *(name for name in ("weight", "bias") if choose.integer(0, 1))]
    tensors = [
        {**sample.tensor(choose, shape, tile_only=True), "dtype": types[number > 0]}
        for number, shape in enumerate((sizes, *[[1, channels, 1, 1]] * len(names)))
    ]
    named: dict[str, Any] = {name: {"tensor": f"t{number}"} for number, name in enumerate(names, start=1)}
    named |= sample.options(record, choose)[1]
    tensors[0], place = sample.among_shards(choose, tensors[0])
    *made, call = format_call(record.name, tensors, **place, **named)
    return [*made, {**call, "args": call["args"][:1]}]


def draw_group_norm(record: OperationRecord, choose: Choose) -> list[Step]:
    channels = 32 * choose.one_of((1, 2, 3, 4, 8, 10))
    groups = choose.one_of([number for number in (1, 2, 4, 8, 16, 32) if channels % number == 0])
    rows = choose.one_of((1, 32, 49, 64, 100, 196, 256, 400, 3136))
    source = {
        **EXAMPLE_TENSOR,
        "shape": [choose.integer(1, 3), 1, rows, channels],
        "memory": choose.one_of(sample.MEMORIES),
    }
    named: dict[str, Any] = {"num_groups": groups, "core_grid": ONE_CORE, "inplace": False}
    if choose.integer(0, 1):
        named["num_out_blocks"] = choose.integer(1, -(-rows // 32))
    named |= sample.options(record, choose)[1]
    wanted = sample.any_place(choose, source["shape"], "tile", sharded=not choose.integer(0, 3))
    return format_call(record.name, [source], **(wanted if choose.integer(0, 1) else {}), **named)


DRAWS: dict[str, Draw] = {
    "row norm": draw_row_norm,
    "batch_norm": draw_batch_norm,
    "group_norm": draw_group_norm,
}
