# SPDX-License-Identifier: Apache-2.0
"""Parts of random calls: shapes that meet tile borders, all data types, memories, shards."""

from __future__ import annotations

from math import prod
from typing import Any, TypeVar

from oracle.draws.choose import Choose
from ttmem.twin.operations.record import REQUIRED, OperationRecord, Step

Shape = list[int]


T = TypeVar("T")


SIZES = (1, 2, 3, 5, 16, 17, 31, 32, 33, 48, 64, 96, 100, 128, 160, 250, 256)


_OUTER_SIZES = (1, 1, 2, 3, 4, 32)


MEMORIES = ("L1", "L1", "DRAM")


_WISHES = (None, None, "L1", "DRAM")


_FLOATS = ("bfloat16", "bfloat16", "float32", "bfloat8_b")


_INTEGERS = ("uint32", "int32", "uint16")


_BLOCK_FLOATS = ("bfloat8_b", "bfloat4_b")


def shape(choose: Choose, *, most: int = 5, odd: bool = False) -> Shape:
    """Two to ``most`` dimensions, small ones outside; ``odd``: now and then none, or one."""
    if odd and not choose.integer(0, 4):
        return [choose.one_of(SIZES) for _ in range(choose.integer(0, 1))]
    rank = choose.integer(2, most)
    return [choose.one_of(_OUTER_SIZES) for _ in range(rank - 2)] + [choose.one_of(SIZES) for _ in range(2)]


def tiles(choose: Choose, *shape: int) -> Step:
    """Floats of a given shape."""
    return {
        "shape": list(shape),
        "dtype": choose.one_of(("bfloat16", "bfloat16", "bfloat8_b", "float32")),
        "layout": "tile",
        "memory": choose.one_of(MEMORIES),
    }


def tensor(
    choose: Choose,
    sizes: Shape | None = None,
    *,
    most: int = 5,
    tile_only: bool = False,
    integers: bool = False,
    odd: bool = False,
) -> Step:
    """Floats, and for operations that only move data ``integers`` too; ``odd``: seldom types and shapes as well."""
    types: tuple[str, ...] = (*_FLOATS, *_INTEGERS) if integers else _FLOATS
    if odd and not choose.integer(0, 7):
        types = ("bfloat4_b", "uint8") if integers else ("bfloat4_b",)
    dtype = choose.one_of(types)
    layout = "tile" if tile_only or dtype in _BLOCK_FLOATS else choose.one_of(("tile", "tile", "row_major"))
    return {
        "shape": shape(choose, most=most, odd=odd) if sizes is None else sizes,
        "dtype": dtype,
        "layout": layout,
        "memory": choose.one_of(MEMORIES),
    }


def sharded_tensor(choose: Choose) -> Step:
    """Tiles in L1 with one shard per core, mostly; now and then a core or a part of a shard is left over."""
    kind = choose.one_of(("height", "width", "block"))
    columns, rows = choose.integer(1, 6), choose.integer(1, 6)
    height, width = 32 * choose.integer(1, 3), 32 * choose.integer(1, 3)
    down = {"height": columns * rows, "width": 1, "block": rows}[kind]
    across = {"height": 1, "width": columns * rows, "block": columns}[kind]
    missing = choose.one_of((0, 0, 0, 32)) if kind != "width" and down * height > 32 else 0
    return {
        "shape": [1, 1, down * height - missing - choose.integer(0, 5), across * width],
        "dtype": choose.one_of(("bfloat16", "float32", "bfloat8_b")),
        "layout": "tile",
        "memory": "L1",
        "shard": {"kind": kind, "shape": [height, width], "ranges": [[0, 0, columns - 1, rows - 1]]},
    }


def shard_of(choose: Choose, sizes: Shape) -> Step:
    """Shards of tiles for a tensor of these sizes in L1; some may be left empty or cut short."""
    rows, width = prod(sizes[:-2]) * -(-(1, *sizes)[-2] // 32), -(-sizes[-1] // 32)
    kind = choose.one_of(("height", "width", "block"))
    columns, lines = choose.integer(1, 6), choose.integer(1, 6)
    down = {"height": columns * lines, "width": 1, "block": lines}[kind]
    across = {"height": 1, "width": columns * lines, "block": columns}[kind]
    part = [32 * -(-rows // down), 32 * -(-width // across)]
    return {"kind": kind, "shape": part, "ranges": [[0, 0, columns - 1, lines - 1]]}


def any_place(choose: Choose, sizes: Shape, layout: str, *, sharded: bool) -> Step:
    """L1, or now and then DRAM; shards of tiles or rows that hold the tensor, by rows or by columns of cores."""
    memory = choose.one_of(("L1", "L1", "L1", "DRAM"))
    if not sharded:
        return {"memory": memory}
    kind = choose.one_of(("height", "width") if memory == "DRAM" else ("height", "width", "block"))
    columns, lines = choose.integer(1, 7), 1 if memory == "DRAM" else choose.integer(1, 7)
    unit = 32 if layout == "tile" else 1
    high, wide = prod(sizes[:-2]) * -(-sizes[-2] // unit), -(-sizes[-1] // unit)
    by_column = not choose.integer(0, 3)
    across, down = (lines, columns) if by_column else (columns, lines)
    down = {"height": columns * lines, "width": 1, "block": down}[kind]
    across = {"height": 1, "width": columns * lines, "block": across}[kind]
    part = [unit * -(-high // down), unit * -(-wide // across)]
    if layout != "tile" and across > 1 and choose.integer(0, 2):
        part[1] = -(-part[1] // 16) * 16
    orientation = "col" if by_column else "row"
    shard = {"kind": kind, "shape": part, "ranges": [[0, 0, columns - 1, lines - 1]], "orientation": orientation}
    return {"memory": memory, "shard": shard}


def out_of_shards(choose: Choose, source: Step) -> tuple[Step, str | None]:
    """The tensor and where its result is to go; now and then one of its kind in shards, and a result in pages."""
    if source["layout"] != "tile" or len(source["shape"]) < 2 or choose.integer(0, 4):
        return source, wish(choose)
    return source | any_place(choose, source["shape"], "tile", sharded=True), choose.one_of(MEMORIES)


def among_shards(choose: Choose, source: Step) -> tuple[Step, dict[str, Any]]:
    """The tensor and where its result is to go, as `format_call` takes it; now and then shards before, behind, or on
    both sides.
    """
    if len(source["shape"]) < 2 or choose.integer(0, 3):
        return source, {"memory": wish(choose)}
    before, after = choose.one_of(((True, 0), (True, 1), (True, 2), (False, 2)))
    placed = source | any_place(choose, source["shape"], source["layout"], sharded=before)
    return placed, any_place(choose, source["shape"], source["layout"], sharded=after == 2) if after else {}


def now_and_then_in_shards(choose: Choose, source: Step) -> Step:
    """The tensor, or one of its kind in shards where it has tiles."""
    if source["layout"] != "tile" or len(source["shape"]) < 2 or choose.integer(0, 3):
        return source
    return source | any_place(choose, source["shape"], "tile", sharded=True)


def wish(choose: Choose) -> str | None:
    """Where the result is to go; None: where the library puts it."""
    return choose.one_of(_WISHES)


def options(record: OperationRecord, choose: Choose) -> tuple[list[Any], dict[str, Any]]:
    """Values for the arguments that have samples: those with a place, then those by name, which may be left out."""
    placed: list[Any] = []
    named: dict[str, Any] = {}
    for argument in record.arguments:
        if not argument.samples:
            continue
        if argument.position is not None:
            placed.append(choose.one_of(argument.samples))
        elif argument.default is REQUIRED or choose.integer(0, 2):
            named[argument.name] = choose.one_of(argument.samples)
    return placed, named


def shuffled(choose: Choose, items: list[T]) -> list[T]:
    """In any order."""
    left, order = list(items), list[T]()
    while left:
        order.append(left.pop(choose.integer(0, len(left) - 1)))
    return order


def draw_kernel_config(choose: Choose) -> dict[str, Any]:
    """As an option of a call; mostly left out."""
    if choose.integer(0, 3):
        return {}
    options: Step = {"fp32_dest_acc_en": bool(choose.integer(0, 1)), "packer_l1_acc": bool(choose.integer(0, 1))}
    return {"compute_kernel_config": {"new": "ttnn.WormholeComputeKernelConfig", "kwargs": options}}
