# SPDX-License-Identifier: Apache-2.0
"""Random calls of ttnn's operations in ``ttmem.twin.operations.heads``."""

from __future__ import annotations

from oracle.draws import sample
from oracle.draws.choose import Choose, Draw
from ttmem.base.arithmetic import round_up
from ttmem.twin.operations.call_syntax import format_call
from ttmem.twin.operations.record import OperationRecord, Step


def draw_concat_heads(record: OperationRecord, choose: Choose) -> list[Step]:
    rows = choose.one_of((32, 64, 100, 128))
    batch, heads = choose.integer(1, 2), choose.one_of((1, 4, 8, 12))
    source = sample.tiles(choose, batch, heads, rows, choose.one_of((32, 64, 64, 80, 128)))
    if choose.integer(0, 2):
        return format_call(record.name, [source], memory=sample.wish(choose))
    if not choose.integer(0, 2):
        source |= sample.any_place(choose, source["shape"], "tile", sharded=True)
        return format_call(record.name, [source], memory=choose.one_of(sample.MEMORIES))
    # As many whole heads on a core as there are in one of the result's blocks.
    whole, width = round_up(rows, 32), round_up(source["shape"][-1], 32)
    together = choose.one_of([n for n in range(1, heads + 1) if heads % n == 0])
    across = heads // together
    columns, lines = (across, batch) if across <= 8 else (4, batch * (across // 4))
    kind = choose.one_of(("height", "block")) if across == 1 else "height"
    ranges = [[0, 0, 0, batch - 1]] if across == 1 else [[0, 0, columns - 1, lines - 1]]
    shard: Step = {"kind": kind, "shape": [together * whole, width], "ranges": ranges}
    source |= {"memory": "L1", "shard": shard}
    out = {**shard, "kind": choose.one_of(("width", "block", "block")), "shape": [whole, together * width]}
    return format_call(record.name, [source], memory="L1", shard=out)


def draw_split_heads(record: OperationRecord, choose: Choose) -> list[Step]:
    heads, width = choose.one_of((1, 4, 8)), choose.one_of((32, 64, 96, 128, 192, 256, 384))
    flips = bool(choose.integer(0, 1))
    batch, rows = choose.integer(1, 2), choose.one_of((32, 64, 96))
    if record.name.startswith("transformer"):
        source = sample.tiles(choose, batch, rows, 3 * heads * width)
        steps = format_call(record.name, [source], memory=sample.wish(choose), num_heads=heads)
        steps[-1]["kwargs"]["transpose_key"] = flips
        steps[-1]["out"] = ["queries", "keys", "values"]
        return steps
    key_heads = choose.one_of((1, heads))
    source = sample.tiles(choose, batch, 1, rows, (heads + 2 * key_heads) * choose.one_of((width, width, 16, 40)))
    options = {"num_heads": heads, "num_kv_heads": key_heads, "transpose_k_heads": flips}
    where: Step = {"memory": sample.wish(choose)}
    if not choose.integer(0, 2):
        cores = choose.one_of([n for n in (1, 2, 4, 8) if key_heads % n == 0])
        own = (heads // key_heads + 2) * width
        source = sample.tiles(choose, 1, 1, 32, own * cores)
        shard: Step = {"kind": "width", "shape": [32, own], "ranges": [[0, 0, cores - 1, 0]]}
        source |= {"memory": "L1", "shard": shard}
        where = {"memory": "L1", "shard": {**shard, "kind": choose.one_of(("height", "height", "block"))}}
        options["transpose_k_heads"] = not choose.integer(0, 7)
    steps = format_call(record.name, [source], **where)
    steps[-1]["kwargs"] |= options
    steps[-1]["out"] = ["queries", "keys", "values"]
    return steps


DRAWS: dict[str, Draw] = {
    "concat heads": draw_concat_heads,
    "split heads": draw_split_heads,
}
