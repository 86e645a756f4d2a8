# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.matmul``."""

from __future__ import annotations

from typing import Any

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from oracle.draws.sample import draw_kernel_config
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.matmul_configs import DRAM_SHARDS, GRID, LINE, REUSE
from ttmem.twin.operations.record import OperationRecord, Step


def draw_matmul(record: OperationRecord, choose: Choose) -> list[Step]:
    draw = choose.one_of((draw_configured, draw_shards, _draw_bare_shards, *(_draw_without_config,) * 5))
    return draw(record, choose)


_MODEL_SIZES = (*sample.SIZES, 384, 512, 577, 768, 1024, 1536, 2048, 3072, 4096)


def _draw_without_config(record: OperationRecord, choose: Choose) -> list[Step]:
    """As models are written: weights or batches, transposes, a bias and an activation for linear."""
    batch = [choose.one_of((1, 1, 2, 4, 12)) for _ in range(choose.integer(0, 2))]
    height, depth, width = (choose.one_of(_MODEL_SIZES) for _ in range(3))
    turned = [not choose.integer(0, 3) for _ in range(2)]
    shapes = [
        size[::-1] if turn else size for size, turn in zip(([height, depth], [depth, width]), turned, strict=True)
    ]
    has_weight = record.name == "linear" and choose.integer(0, 4)
    other = [1] * choose.integer(0, len(batch)) if has_weight else batch
    if not has_weight and not choose.integer(0, 4):
        batch = [1] * len(batch)
    memories = choose.one_of((("DRAM",), ("DRAM",), ("DRAM", "L1")))
    first, second = (
        {**sample.tensor(choose, sizes, tile_only=True), "memory": choose.one_of(memories)}
        for sizes in ([*batch, *shapes[0]], [*other, *shapes[1]])
    )
    if choose.integer(0, 2):
        second["dtype"] = first["dtype"]
    elif not choose.integer(0, 2):
        second["dtype"] = "bfloat4_b"
    named: dict[str, Any] = {f"transpose_{name}": True for name, turn in zip("ab", turned, strict=True) if turn}
    if not choose.integer(0, 3):
        named["dtype"] = {"dtype": choose.one_of(("bfloat16", "float32", "bfloat8_b"))}
    tensors = [first, second]
    if not choose.integer(0, 4):
        named["activation"] = choose.one_of(("relu", "gelu", "silu", "sigmoid"))
    if record.name == "linear" and choose.integer(0, 1):
        named["bias"] = {"tensor": "t2"}
        shapes = [[width], [1, width], [1, 1, width], [height, width], [1], [width + 32]]
        tensors.append({**second, "shape": choose.one_of(shapes)})
    if not choose.integer(0, 9):
        second["shape"] = [1, *second["shape"]]  # batches need equal ranks
    wish = sample.wish(choose) if "L1" in memories else None
    if not choose.integer(0, 4):
        cores = {"y": choose.integer(1, 7), "x": choose.integer(1, 8)}
        named["core_grid"] = {"new": "ttnn.CoreGrid", "kwargs": cores}
    if not named and not choose.integer(0, 4):
        if choose.integer(0, 1):
            second["shape"] = [depth]
        else:
            first["shape"] = [depth]
    *made, call = format_call(record.name, tensors, memory=wish, **named, **draw_kernel_config(choose))
    return [*made, {**call, "args": call["args"][:2]}]


def draw_addmm(record: OperationRecord, choose: Choose) -> list[Step]:
    height, depth, width = (choose.one_of(_MODEL_SIZES) for _ in range(3))
    dtype = choose.one_of(("bfloat16", "float32", "bfloat8_b"))
    tensors = [
        {**sample.tensor(choose, sizes, tile_only=True), "dtype": dtype}
        for sizes in ([height, width], [height, depth], [depth, width])
    ]
    if not choose.integer(0, 3):
        tensors[0] |= sample.any_place(choose, tensors[0]["shape"], "tile", sharded=True)
    if not choose.integer(0, 3):
        *made, _ = _draw_bare_shards(record, choose)
        first, second = ({**spec, "shape": spec["shape"][2:]} for spec in made)
        if made[0]["shape"][1] == made[1]["shape"][1] == 1:
            added = {**tensors[0], "shape": [first["shape"][0], second["shape"][1]], "shard": None}
            tensors = [{k: v for k, v in spec.items() if k != "alloc"} for spec in (added, first, second)]
    factors: dict[str, Any] = {
        name: choose.one_of((0.5, 0.0, 1.0)) for name in ("alpha", "beta") if not choose.integer(0, 2)
    }
    return format_call(record.name, tensors, memory=sample.wish(choose), **factors, **draw_kernel_config(choose))


def draw_configured(record: OperationRecord, choose: Choose) -> list[Step]:
    """One of the configs, mostly one that the library accepts."""
    kind = choose.one_of((GRID, LINE, REUSE))
    rows, depth, columns = (choose.one_of((1, 2, 3, 4, 6, 8)) for _ in range(3))
    batch = [1, choose.one_of((1, 1, 1, 2, 3))]
    joins = bool(choose.integer(0, 2)) or (kind == GRID and batch[1] == 1)
    other = choose.one_of(([1, 1], batch)) if kind != REUSE else batch
    turned = [not choose.integer(0, 5) for _ in range(2)]
    sizes = [rows * 32 - choose.integer(0, 3), depth * 32], [depth * 32, columns * 32 - choose.integer(0, 3)]
    first, second = (
        sample.tensor(choose, [*outer, *(size[::-1] if turn else size)], tile_only=True)
        for outer, size, turn in zip((batch, other), sizes, turned, strict=True)
    )
    all_rows = rows * batch[1] if joins and kind != REUSE else rows
    fields = _draw_fields(choose, kind, all_rows, depth, columns)
    if kind == LINE:
        fields |= {"fuse_batch": joins, "fused_activation": None}
    elif kind == GRID:
        fields |= {"fuse_batch": joins, "fused_activation": None, "transpose_mcast": not choose.integer(0, 3)}
    config = {"new": f"ttnn.MatmulMultiCoreReuse{kind}ProgramConfig", "kwargs": fields}
    named: dict[str, Any] = {"program_config": config, **draw_kernel_config(choose)}
    named |= {f"transpose_{name}": True for name, turn in zip("ab", turned, strict=True) if turn}
    if choose.integer(0, 1):
        named["dtype"] = {"dtype": choose.one_of(("bfloat16", "float32", "bfloat8_b"))}
    if not choose.integer(0, 5):
        named["activation"] = choose.one_of(("relu", "gelu"))
    tensors = [first, second]
    if record.name == "linear" and choose.integer(0, 1):
        named["bias"] = {"tensor": "t2"}
        width = sizes[1][1]
        tensors.append({**second, "shape": choose.one_of(([width], [1, width], [1, 1, 1, width], [rows * 32, width]))})
    *made, call = format_call(record.name, tensors, memory=sample.wish(choose), **named)
    return [*made, {**call, "args": call["args"][:2]}]


def draw_shards(record: OperationRecord, choose: Choose) -> list[Step]:
    """A first input, a result or both in shards that suit the config, but for one call in ten."""
    kind = choose.one_of((GRID, LINE, REUSE, DRAM_SHARDS))
    spreads = bool(choose.integer(0, 1))
    form = {GRID: choose.one_of(("block", "block", "height")), LINE: "width" if spreads else "height", REUSE: "height"}
    columns, rows = choose.integer(1, 8), choose.integer(1, 7)
    depth, height = choose.one_of((1, 2, 3, 4)), choose.one_of((1, 2, 3, 4))
    width = choose.one_of((1, 2, 3, 4, 6))
    if kind == DRAM_SHARDS:
        return _draw_dram_shards(record, choose, columns, depth, width)
    shape = form[kind]
    if shape == "height" and kind == GRID:
        columns = 1
    down = {"height": columns * rows, "width": 1, "block": rows}[shape]
    across = {"height": 1, "width": columns * rows, "block": columns}[shape]
    tiles_high, tiles_deep = down * height, across * depth
    wide = {GRID: choose.integer(1, 8) * width, LINE: columns * rows * width if spreads else width, REUSE: width}[kind]
    if shape == "block":
        wide = columns * width
    fields = _draw_fields(choose, kind, height, depth, width)
    fields |= {"per_core_M": height, "per_core_N": width, "compute_with_storage_grid_size": {"tuple": [8, 7]}}
    if kind == LINE:
        fields |= {"fuse_batch": True, "fused_activation": None, "mcast_in0": spreads}
    elif kind == GRID:
        fields |= {"fused_activation": None, "transpose_mcast": False}
    if kind == REUSE or (kind == GRID and shape == "height"):
        fields["in0_block_w"] = depth
    fields["out_subblock_h"] = 1
    if kind != REUSE:
        fields |= choose.one_of(({"out_block_h": height}, {"out_block_h": 1})) | {"out_block_w": width}
    shard: Step = {"kind": shape, "shape": [32 * height, 32 * depth], "ranges": [[0, 0, columns - 1, rows - 1]]}
    has_shards = choose.integer(0, 3)
    batch = [1, tiles_high // height] if kind == REUSE else [1, 1]
    high = height if kind == REUSE else tiles_high
    first = sample.tensor(choose, [*batch, 32 * high, 32 * tiles_deep], tile_only=True)
    if has_shards:
        first |= {"memory": "L1", "shard": shard}
    second = sample.tensor(choose, [*batch, 32 * tiles_deep, 32 * wide], tile_only=True)
    out = {**shard, "shape": [32 * height, 32 * width], "kind": "block" if kind == GRID else shape}
    is_cut = has_shards != 1
    config = {"new": f"ttnn.MatmulMultiCoreReuse{kind}ProgramConfig", "kwargs": fields}
    named: dict[str, Any] = {"program_config": config, **draw_kernel_config(choose)}
    if choose.integer(0, 1):
        named["dtype"] = {"dtype": choose.one_of(("bfloat16", "float32", "bfloat8_b"))}
    memory = "L1" if is_cut else sample.wish(choose)
    return format_call(record.name, [first, second], memory=memory, shard=out if is_cut else None, **named)


def _draw_bare_shards(record: OperationRecord, choose: Choose) -> list[Step]:
    """A first input in shards, and no config: the library makes one of them."""
    kind = choose.one_of(("height", "width", "block"))
    columns, rows = choose.integer(1, 8), choose.integer(1, 7)
    high, deep = choose.integer(1, 4), choose.integer(1, 4)
    by_column = not choose.integer(0, 3)
    down, across = (columns, rows) if by_column else (rows, columns)
    down = {"height": columns * rows, "width": 1, "block": down}[kind]
    across = {"height": 1, "width": columns * rows, "block": across}[kind]
    wide = choose.one_of((1, 2, 3, 4, 6, 8, 16, 40, columns, columns * rows, 2 * columns))
    batch = 2 if down * high % 2 == 0 and not choose.integer(0, 3) else 1
    orientation = "col" if by_column else "row"
    shard: Step = {"kind": kind, "shape": [32 * high, 32 * deep], "ranges": [[0, 0, columns - 1, rows - 1]]}
    shard["orientation"] = orientation
    sizes = [1, batch, 32 * (down * high // batch) - choose.one_of((0, 0, 5)), 32 * across * deep]
    first = {**sample.tensor(choose, sizes, tile_only=True), "memory": "L1", "shard": shard}
    other = [1, choose.one_of((1, 1, batch)), sizes[-1], 32 * wide - choose.one_of((0, 0, 7))]
    second = sample.tensor(choose, other, tile_only=True)
    named: dict[str, Any] = draw_kernel_config(choose)
    if not choose.integer(0, 2):
        named["dtype"] = {"dtype": choose.one_of(("bfloat16", "float32", "bfloat8_b"))}
    where: Step = {"memory": sample.wish(choose)}
    if choose.integer(0, 1):
        own = wide if kind == "height" else -(-wide // across)
        where = {"memory": "L1", "shard": {**shard, "shape": [32 * high, 32 * own]}}
    return format_call(record.name, [first, second], **where, **named)


def _draw_dram_shards(record: OperationRecord, choose: Choose, cores: int, depth: int, width: int) -> list[Step]:
    """A row of tiles, its width over the cores, times weights of which each bank of DRAM has some columns."""
    banks = choose.one_of((7, 7, 8, 12))
    wide = banks * width - choose.integer(0, width - 1)
    rows = choose.integer(1, 6)
    first: Step = {"kind": "width", "shape": [32, 32 * depth], "ranges": [[0, 0, cores - 1, rows - 1]]}
    second: Step = {"kind": "width", "shape": [32 * depth * cores * rows, 32 * width], "ranges": [[0, 0, banks - 1, 0]]}
    own = -(-wide // (cores * rows))
    fields = {"in0_block_w": _divisor(choose, depth), "per_core_M": 1, "per_core_N": own, "fused_activation": None}
    config = {"new": f"ttnn.MatmulMultiCoreReuse{DRAM_SHARDS}ProgramConfig", "kwargs": fields}
    deep = 32 * depth * cores * rows
    tensors = [
        {**sample.tensor(choose, [1, 1, 32, deep], tile_only=True), "memory": "L1", "shard": first},
        {**sample.tensor(choose, [1, 1, deep, 32 * wide], tile_only=True), "memory": "DRAM", "shard": second},
    ]
    out = {**first, "shape": [32, 32 * own]}
    named: dict[str, Any] = {"program_config": config, **draw_kernel_config(choose)}
    if choose.integer(0, 1):
        named["dtype"] = {"dtype": choose.one_of(("bfloat16", "float32", "bfloat8_b"))}
    return format_call(record.name, tensors, memory="L1", shard=out, **named)


def _draw_fields(choose: Choose, kind: str, rows: int, depth: int, columns: int) -> Step:
    """Sizes that divide each other, but for one call in eight."""
    is_careless = not choose.integer(0, 7)
    high, wide = (7, 8) if kind == GRID else (rows, columns)
    own_rows, own_columns = choose.integer(-(-rows // high), rows), choose.integer(-(-columns // wide), columns)
    fields: Step = {}
    if kind == LINE:
        spreads = bool(choose.integer(0, 1))
        fields["mcast_in0"] = spreads
        own_rows, own_columns = (rows, own_columns) if spreads else (own_rows, columns)
    elif kind == REUSE:
        own_columns = columns
        own_rows = _divisor(choose, rows) * (1 if choose.integer(0, 2) else 2)
    block = {"out_block_h": _divisor(choose, own_rows), "out_block_w": _divisor(choose, own_columns)}
    if kind == REUSE or choose.integer(0, 1):
        block = {"out_block_h": own_rows, "out_block_w": own_columns}
    fields |= {
        "compute_with_storage_grid_size": {"tuple": [8, 7]},  # the least of all boards
        "in0_block_w": _divisor(choose, depth) if not is_careless else choose.integer(1, depth),
        "out_subblock_h": _divisor(choose, block["out_block_h"]),
        "out_subblock_w": 1 if not is_careless else choose.integer(1, 4),
        "per_core_M": own_rows,
        "per_core_N": own_columns,
    }
    return fields if kind == REUSE else {**fields, **block}


def _divisor(choose: Choose, number: int) -> int:
    return choose.one_of([size for size in range(1, number + 1) if number % size == 0])


DRAWS: dict[str, Draw] = {
    "matmul": draw_matmul,
    "linear": draw_matmul,
    "addmm": draw_addmm,
}
