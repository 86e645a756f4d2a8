# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.caches``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from oracle.draws.sample import draw_kernel_config
from ttmem.twin.operations.caches import NUMBERS
from ttmem.twin.operations.call_syntax import format_call, format_height_shards
from ttmem.twin.operations.record import OperationRecord, Step


def draw_fill_cache(record: OperationRecord, choose: Choose) -> list[Step]:
    heads, width = choose.one_of((1, 2, 8)), choose.one_of((32, 64, 128))
    cache = sample.tiles(choose, choose.integer(1, 4), heads, 128, width)
    rows = choose.one_of((32, 64, 128))
    source = {**cache, "shape": [1, heads, rows, width], "memory": choose.one_of(sample.MEMORIES)}
    if not choose.integer(0, 2):
        source |= format_height_shards(heads * rows // 32, 32, width)
    return format_call(record.name, [cache, source], 0)


def draw_update_cache(record: OperationRecord, choose: Choose) -> list[Step]:
    heads, width, users = choose.one_of((1, 2, 8)), choose.one_of((32, 64, 128)), choose.one_of((1, 2, 8, 31, 32, 64))
    cache = sample.tiles(choose, users, heads, choose.one_of((64, 100)), width)
    rows = max(users, 32)
    source = sample.tiles(choose, 1, heads, rows, width)
    if not choose.integer(0, 2):
        source |= format_height_shards(heads * rows // 32, 32, width)
    return format_call(record.name, [cache, source], choose.integer(0, 40), **draw_kernel_config(choose))


def draw_paged_update(record: OperationRecord, choose: Choose) -> list[Step]:
    users, heads, width = choose.one_of((1, 2, 7, 8, 32)), choose.one_of((1, 2, 8, 32)), choose.one_of((32, 64, 128))
    is_paged, is_fused = choose.integer(0, 1), "fused" in record.name
    pages = choose.one_of((1, 4, 9))
    size = [users * pages, heads, 32 * choose.integer(1, 2), width] if is_paged else [users, heads, 256, width]
    cache = {**sample.tiles(choose, *size), "memory": "DRAM"}
    source = {
        **sample.tiles(choose, 1, users, heads, width),
        **format_height_shards(users, 32, width),
        "dtype": choose.one_of(("bfloat16", "bfloat16", "float32")),
    }
    tensors = [cache, source]
    if is_fused:
        shifted = format_height_shards(users, 32, width, first_row=4)
        tensors += [cache, {**source, **shifted}]
    given, named = len(tensors), dict[str, Any](draw_kernel_config(choose))
    if is_paged or choose.integer(0, 1):
        named["update_idxs_tensor"] = {"tensor": f"t{len(tensors)}"}
        tensors.append({**NUMBERS, "shape": [users]})
    else:
        named["update_idxs"] = [0] * users
    if is_paged:
        named["page_table"] = {"tensor": f"t{len(tensors)}"}
        tensors.append({**NUMBERS, "shape": [users, pages]})
    *made, call = format_call(record.name, tensors, **named)
    results = ["keys", "values"] if is_fused else "result"
    return [*made, {**call, "args": call["args"][:given], "out": results}]


def draw_paged_fill(record: OperationRecord, choose: Choose) -> list[Step]:
    users, heads, width = choose.one_of((1, 4, 32)), choose.one_of((1, 2, 8)), choose.one_of((32, 64, 128))
    block, pages = choose.one_of((32, 64, 128)), choose.one_of((1, 4, 9, 100))
    cache = {**sample.tiles(choose, users * pages, heads, block, width), "memory": "DRAM"}
    filled = cache | sample.any_place(choose, cache["shape"], "tile", sharded=not choose.integer(0, 3))
    rows = choose.integer(1, block * pages)
    source = {**cache, "shape": [1, heads, rows, width], "memory": choose.one_of(sample.MEMORIES)}
    tensors = [filled, source, {**NUMBERS, "shape": [users, pages]}]
    if choose.integer(0, 1):
        return format_call(record.name, tensors, batch_idx=choose.integer(0, users - 1))
    tensors.append({**NUMBERS, "shape": [1]})
    *made, call = format_call(record.name, tensors, batch_idx_tensor={"tensor": "t3"})
    return [*made, {**call, "args": call["args"][:3]}]


def draw_plus_one(record: OperationRecord, choose: Choose) -> list[Step]:
    shape = [choose.one_of((1, 8, 32, 100)) for _ in range(choose.integer(1, 3))]
    dtype, memory = choose.one_of(("int32", "uint32")), choose.one_of(sample.MEMORIES)
    source = {**NUMBERS, "shape": shape, "dtype": dtype, "memory": memory}
    if len(shape) > 1 and not choose.integer(0, 2):
        source |= sample.any_place(choose, shape, "row_major", sharded=True)
    return format_call(record.name, [source])


DRAWS: dict[str, Draw] = {
    "fill_cache": draw_fill_cache,
    "update_cache": draw_update_cache,
    "experimental.paged_update_cache": draw_paged_update,
    "experimental.paged_fused_update_cache": draw_paged_update,
    "experimental.paged_fill_cache": draw_paged_fill,
    "plus_one": draw_plus_one,
}
