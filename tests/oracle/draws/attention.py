# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.attention``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from oracle.draws.sample import draw_kernel_config
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_attention(record: OperationRecord, choose: Choose) -> list[Step]:
    batch, heads = choose.one_of((1, 1, 2, 4, 9)), choose.one_of((1, 2, 8, 12, 32))
    depth = choose.one_of((32, 64, 64, 64, 80, 96, 128, 256))
    rows = choose.one_of((1, 17, 32, 49, 64, 100, 128, 197, 256, 400))
    keys = rows if choose.integer(0, 2) else choose.one_of((1, 32, 49, 77, 128, 300))
    groups = choose.one_of([heads, *(n for n in (1, 2, 4) if heads % n == 0)])
    sizes = ([batch, heads, rows, depth], [batch, groups, keys, depth], [batch, groups, keys, depth])
    tensors, named = [draw_tensor(choose, size) for size in sizes], dict[str, Any](is_causal=False)
    kind = choose.integer(0, 2)
    if kind == 0 and rows == keys:
        named["is_causal"] = True
    elif kind == 1:
        named["attn_mask"] = {"tensor": "t3"}
        size = [choose.one_of((1, batch)), choose.one_of((1, heads)), rows, keys]
        tensors.append({**draw_tensor(choose, size), "memory": "DRAM"})
    if choose.integer(0, 1):
        named["scale"] = choose.one_of((0.125, 1.0))
    if not choose.integer(0, 3):
        config = {
            "compute_with_storage_grid_size": {"tuple": [choose.integer(3, 8), choose.integer(3, 8)]},
            "q_chunk_size": choose.one_of((32, 64, 128, 256)),
            "k_chunk_size": choose.one_of((32, 64, 128, 256)),
        }
        named["program_config"] = {"new": "ttnn.SDPAProgramConfig", "kwargs": config}
    where: Step = {"memory": sample.wish(choose)}
    if not choose.integer(0, 4):
        where = sample.any_place(choose, sizes[0], "tile", sharded=True)
        for number in (3,) if len(tensors) > 3 else ():
            tensors[number] |= sample.any_place(choose, tensors[number]["shape"], "tile", sharded=True)
    *made, call = format_call(record.name, tensors, **where, **named, **draw_kernel_config(choose))
    return [*made, {**call, "args": call["args"][:3]}]


def draw_tensor(choose: Choose, sizes: list[int]) -> Step:
    """Of a type that attention takes, mostly."""
    made = sample.tensor(choose, sizes, tile_only=True, odd=True)
    return {**made, "dtype": "bfloat16"} if made["dtype"] == "float32" and choose.integer(0, 9) else made


DRAWS: dict[str, Draw] = {
    "transformer.scaled_dot_product_attention": draw_attention,
}
