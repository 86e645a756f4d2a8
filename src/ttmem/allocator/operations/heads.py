# SPDX-License-Identifier: Apache-2.0
"""What stands around attention: heads split and put together."""

from dataclasses import replace

from ttmem._errors import BadInputError
from ttmem.allocator.operations import draws
from ttmem.allocator.operations.convolution_schemes import row_by_row
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import result_like
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.hardware import BFLOAT16, DRAM, FLOAT32, L1
from ttmem.tensors import TILE, CoreRange, Shard, TensorSpec, round_up

_TILES_AHEAD = 4
_AHEAD_BY_WIDTH = {1: 4, 2: 4, 3: 4, 4: 8, 8: 16}
"""Tiles that are read ahead, by the tiles of a head's width."""
_MOST_USERS = 32
_SHARDED_MOST = 64
_NOT_TILES = "heads of interleaved tiles are known"


def _is_known(call: Call) -> bool:
    return all(spec.layout is TILE and spec.shard is None for spec in call.inputs)


def concat_heads(call: Call, plan: PlanWriter) -> Plan:
    """A row of tiles of all heads at a time, and the next one."""
    source = call.inputs[0]
    if not _is_known(call) or len(source.shape) != 4 or source.shape[-1] % 32:
        return plan.give_up(_NOT_TILES)
    batch, heads, rows, width = source.shape
    outer = (batch,) if call.name.endswith("concatenate_heads") else (batch, 1)
    result = replace(result_like(source, call.memory), shape=(*outer, rows, heads * width))
    return plan.one_program(result, [2 * heads * (width // 32) * source.dtype.tile_bytes()])


def split_heads(call: Call, plan: PlanWriter) -> Plan:
    """Queries, keys and values out of one tensor; keys may be transposed on the way, which takes two more buffers."""
    source = call.inputs[0]
    heads = int(call.arguments["num_heads"])
    key_heads = int(call.arguments["num_kv_heads"] or heads)
    flips = bool(call.arguments["transpose_k_heads" if "transpose_k_heads" in call.arguments else "transpose_key"])
    if not _is_known(call) or len(call.inputs) > 1 or len(source.shape) < 3:
        return plan.give_up(_NOT_TILES)
    if source.shape[-1] % (heads + 2 * key_heads):
        raise BadInputError(f"{source.shape[-1]} is no multiple of {heads + 2 * key_heads} heads")
    batch, rows, width = source.shape[0], source.shape[-2], source.shape[-1] // (heads + 2 * key_heads)
    if width % 32 or (len(source.shape) == 4 and source.shape[1] != 1):
        return plan.give_up("heads of whole tiles are known")
    like = result_like(source, call.memory)
    keys = (batch, key_heads, width, rows) if flips else (batch, key_heads, rows, width)
    shapes = ((batch, heads, rows, width), keys, (batch, key_heads, rows, width))
    specs = [replace(like, shape=shape) for shape in shapes]
    slots = [plan.allocate(spec) for spec in specs]
    tile = source.dtype.tile_bytes()
    if flips:
        plan.launch([_TILES_AHEAD * tile] * 3)
    elif width // 32 in _AHEAD_BY_WIDTH:
        plan.launch([_AHEAD_BY_WIDTH[width // 32] * tile])
    else:
        most = max(2 * width // 32, _TILES_AHEAD) * tile
        plan.launch([_TILES_AHEAD * tile], at_least="heads of a width that was not compared", at_most_bytes=most)
    return plan.finish_all(list(zip(slots, specs, strict=True)))


def split_new_heads(call: Call, plan: PlanWriter) -> Plan:
    """Queries, keys and values of the new row of every user: one user's heads on each core."""
    source = call.inputs[0]
    heads = int(call.arguments["num_heads"])
    key_heads = int(call.arguments["num_kv_heads"] or heads)
    if len(source.shape) != 4 or source.layout is not TILE or source.shape[:2] != (1, 1):
        raise BadInputError("new rows of heads are tiles of [1, 1, users, width]")
    users, width = source.shape[2], source.shape[3]
    if users > _MOST_USERS or width % 32 or width % (heads + 2 * key_heads) or heads < key_heads:
        raise BadInputError(f"{width} is no whole number of tiles for {heads + 2 * key_heads} heads of {users} users")
    depth = width // (heads + 2 * key_heads)
    shard = source.shard
    if len(call.inputs) > 1 or depth % 32 or not (call.arguments["overlap_qk_coregrid"] is not False or shard is None):
        return plan.give_up("new rows of heads on cores of their own, or of a slice of the users")
    if shard is not None and not (isinstance(shard, Shard) and shard.kind == "width" and not shard.by_column):
        raise BadInputError("new rows of heads are interleaved or width sharded")
    grid = call.shard.ranges if call.shard is not None else row_by_row(plan.memory_map.grid.cores, plan.memory_map.grid)
    if sum(part.cores for part in grid) < users:
        raise BadInputError(f"{users} users need as many cores")
    cores = _first_cores(grid, users)
    specs = [
        TensorSpec((1, users, count, depth), source.dtype, TILE, L1, Shard("height", round_up(count, 32), depth, cores))
        for count in (heads, key_heads, key_heads)
    ]
    slots = [plan.allocate(spec) for spec in specs]
    if source.dtype not in (BFLOAT16, FLOAT32):
        plan.refuse("Unsupported data format")
    alignment = plan.memory_map.architecture.dram_alignment_bytes
    line = 16 * (source.dtype.element_bytes or 0)
    short = shard is None and source.memory is DRAM and line < alignment
    plan.launch([(depth // 32 + 1) * alignment] * 2 if short else [])
    return plan.finish_all(list(zip(slots, specs, strict=True)))


def _first_cores(grid: tuple[CoreRange, ...], wanted: int) -> tuple[CoreRange, ...]:
    """So many, row by row in each range."""
    found: list[CoreRange] = []
    for part in grid:
        rows, rest = divmod(min(wanted, part.cores), part.columns)
        x, y = part.start_x, part.start_y
        found += [CoreRange(x, y, part.end_x, y + rows - 1)] if rows else []
        found += [CoreRange(x, y + rows, x + rest - 1, y + rows)] if rest else []
        wanted -= rows * part.columns + rest
    return tuple(found)


def concat_new_heads(call: Call, plan: PlanWriter) -> Plan:
    """The heads of every user side by side again, a head on each core."""
    source, heads = call.inputs[0], int(call.arguments["num_heads"])
    shard = source.shard
    if len(source.shape) != 4 or source.layout is not TILE or not isinstance(shard, Shard) or shard.kind != "height":
        raise BadInputError("heads of new rows are height sharded tiles of four dimensions")
    _, users, rows, depth = source.shape
    if source.shape[0] != 1 or users > _MOST_USERS or users != shard.cores or round_up(rows, 32) < heads:
        raise BadInputError("heads of new rows lie on one core for every user")
    if (shard.height, shard.width) != (round_up(rows, 32), round_up(depth, 32)):
        raise BadInputError("a shard of new rows holds all heads of a user")
    if len(shard.ranges) > 1 or (shard.ranges[0].start_x, shard.ranges[0].start_y) != (0, 0):
        return plan.give_up("heads of new rows on other cores than the first ones")
    batch, depth = max(users, _MOST_USERS), round_up(depth, 32)
    cores = row_by_row(heads, plan.memory_map.grid)
    result = TensorSpec((1, 1, batch, heads * depth), source.dtype, TILE, L1, Shard("width", batch, depth, cores))
    slot = plan.allocate(result)
    if source.dtype not in (BFLOAT16, FLOAT32):
        plan.refuse("Unsupported data format")
    plan.launch([])
    return plan.finish(slot, result)


def _tiles(choose: Choose, *shape: int) -> Step:
    return {
        "shape": list(shape),
        "dtype": choose.one_of(("bfloat16", "bfloat16", "bfloat8_b", "float32")),
        "layout": "tile",
        "memory": choose.one_of(draws.MEMORIES),
    }


def _draw_concat_heads(record: OperationRecord, choose: Choose) -> list[Step]:
    rows = choose.one_of((32, 64, 100, 128))
    source = _tiles(choose, choose.integer(1, 2), choose.one_of((1, 4, 8, 12)), rows, choose.one_of((32, 64, 128)))
    return write_call(record.name, [source], memory=draws.wish(choose))


def _draw_split_heads(record: OperationRecord, choose: Choose) -> list[Step]:
    heads, width = choose.one_of((1, 4, 8)), choose.one_of((32, 64, 96, 128, 256))
    flips = bool(choose.integer(0, 1))
    batch, rows = choose.integer(1, 2), choose.one_of((32, 64, 96))
    if record.name.startswith("transformer"):
        source = _tiles(choose, batch, rows, 3 * heads * width)
        steps = write_call(record.name, [source], memory=draws.wish(choose), num_heads=heads)
        steps[-1]["kwargs"]["transpose_key"] = flips
        steps[-1]["out"] = ["queries", "keys", "values"]
        return steps
    key_heads = choose.one_of((1, heads))
    source = _tiles(choose, batch, 1, rows, (heads + 2 * key_heads) * width)
    options = {"num_heads": heads, "num_kv_heads": key_heads, "transpose_k_heads": flips}
    steps = write_call(record.name, [source], memory=draws.wish(choose))
    steps[-1]["kwargs"] |= options
    steps[-1]["out"] = ["queries", "keys", "values"]
    return steps


def _draw_new_heads(record: OperationRecord, choose: Choose) -> list[Step]:
    heads, depth, users = choose.one_of((1, 4, 8, 32)), choose.one_of((32, 64, 128)), choose.one_of((1, 5, 8, 32))
    key_heads = choose.one_of((1, heads))
    width = (heads + 2 * key_heads) * depth
    source = _tiles(choose, 1, 1, users, width)
    tiles = width // 32
    if choose.integer(0, 1) and tiles <= _SHARDED_MOST:
        shard = {"kind": "width", "shape": [32, 32], "ranges": draws.height_shards(tiles, 32, 32)["shard"]["ranges"]}
        source |= {"memory": "L1", "shard": shard}
    steps = write_call(record.name, [source], memory=choose.one_of((None, "L1")), num_heads=heads)
    steps[-1]["kwargs"]["num_kv_heads"] = key_heads
    steps[-1]["out"] = ["queries", "keys", "values"]
    return steps


def _draw_concat_new_heads(record: OperationRecord, choose: Choose) -> list[Step]:
    users, depth, heads = choose.one_of((1, 4, 8, 16, 32)), choose.one_of((32, 64, 128)), choose.one_of((1, 7, 8, 32))
    source = {**_tiles(choose, 1, users, choose.one_of((heads, 32)), depth), **draws.height_shards(users, 32, depth)}
    return write_call(record.name, [source], num_heads=heads)


def _named(name: str, shape: list[int], **options: object) -> list[Step]:
    steps = write_call(name, [{"shape": shape, "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}])
    steps[-1]["kwargs"] |= options
    return steps


RECORDS = (
    *(
        record_of(_named(name, [1, 8, 64, 64]), concat_heads, _draw_concat_heads, family="concat heads")
        for name in ("experimental.nlp_concat_heads", "transformer.concatenate_heads")
    ),
    record_of(
        _named("experimental.nlp_create_qkv_heads", [1, 1, 64, 768], num_heads=8, num_kv_heads=2),
        split_heads,
        _draw_split_heads,
        Argument("num_heads"),
        *(Argument("num_kv_heads", default=None), Argument("transpose_k_heads", default=True)),
        family="split heads",
    ),
    record_of(
        _named("transformer.split_query_key_value_and_split_heads", [1, 64, 768], num_heads=4),
        split_heads,
        _draw_split_heads,
        Argument("num_heads"),
        *(Argument("num_kv_heads", default=None), Argument("transpose_key", default=True)),
        family="split heads",
    ),
    record_of(
        [
            *(
                steps := _named(
                    "experimental.nlp_create_qkv_heads_decode", [1, 1, 32, 768], num_heads=8, num_kv_heads=2
                )
            )[:-1],
            {**steps[-1], "out": ["queries", "keys", "values"]},
        ],
        split_new_heads,
        _draw_new_heads,
        Argument("num_heads"),
        *(Argument("num_kv_heads", default=None), Argument("overlap_qk_coregrid", default=None)),
        takes_shards=True,
    ),
    record_of(
        write_call(
            "experimental.nlp_concat_heads_decode",
            [{**EXAMPLE_TENSOR, "shape": [1, 1, 32, 64], **draws.height_shards(1, 32, 64)}],
            num_heads=8,
        ),
        concat_new_heads,
        _draw_concat_new_heads,
        Argument("num_heads"),
    ),
)
