# SPDX-License-Identifier: Apache-2.0
"""Shards that the library chooses for a result, from those of the input."""

from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import Grid
from ttmem.twin.operations.conv_parallelization import fill_rows
from ttmem.twin.tensor_spec import CoreRange, Shard, TensorSpec

_ROW_QUANTUM_BYTES = 16
"""What rows in shards of L1 are multiples of."""


def of_slice(source: TensorSpec, shape: tuple[int, ...], *, in_tiles: bool) -> Shard | None:
    """Of a part: as many shards as before, on the same cores, each as small as the part allows. None: the cores of
    block shards are no rectangle.
    """
    shard = source.shard
    assert isinstance(shard, Shard)
    *outer, width = replace(source, shape=shape, shard=None).padded if in_tiles else shape
    height, unit = prod(outer), 32 if in_tiles else 1
    if shard.kind == "height":
        return replace(shard, height=_share(height, shard.cores, unit), width=width)
    if shard.kind == "width":
        return replace(shard, height=height, width=_share(width, shard.cores, unit))
    box = rectangle(shard)
    # Rows of cores share the height, whichever way the shards are dealt.
    if box is None:
        return None
    return replace(shard, height=_share(height, box.rows, unit), width=_share(width, box.columns, unit))


def of_equal_parts(source: TensorSpec, axis: int, parts: int) -> Shard | None:
    """On the same cores, each so many times smaller. None: they, or the padded tensor, do not come out even."""
    shard, padded = source.shard, source.padded
    if not isinstance(shard, Shard) or padded[axis] % parts:
        return None
    is_width = axis == len(padded) - 1
    if (shard.width if is_width else shard.height) % parts:
        return None
    made = replace(shard, width=shard.width // parts) if is_width else replace(shard, height=shard.height // parts)
    is_cut = source.is_tiled and (made.height % 32 or made.width % 32)
    return None if is_cut else made


def of_reshape(source: TensorSpec, wanted: Shard, shape: tuple[int, ...], *, is_explicit: bool) -> Shard | None:
    """Of tiles under another shape: on the cores that are ``wanted``, block shards on as many of them as share the
    tiles evenly. What the caller says himself of block shards stays where it holds the result. None: no shards at all.
    """
    *outer, width = replace(source, shape=shape, shard=None).padded
    height = prod(outer)
    box = rectangle(wanted)
    if box is None:
        return None
    if wanted.kind == "height":
        return replace(wanted, height=_share(height, wanted.cores), width=width)
    if wanted.kind == "width":
        return replace(wanted, height=height, width=_share(width, wanted.cores))
    down, across = (box.columns, box.rows) if wanted.by_column else (box.rows, box.columns)
    is_whole = wanted.height % 32 == 0 and wanted.width % 32 == 0
    if is_explicit and is_whole and down * wanted.height >= height and across * wanted.width >= width:
        return wanted
    down, across = _even_parts(height // 32, down), _even_parts(width // 32, across)
    columns, rows = (down, across) if wanted.by_column else (across, down)
    cores = CoreRange(box.start_x, box.start_y, box.start_x + columns - 1, box.start_y + rows - 1)
    return replace(wanted, height=height // down, width=width // across, ranges=(cores,))


def of_whole_grid(result: TensorSpec, kind: str, grid: Grid, *, by_column: bool = False) -> Shard | None:
    """Dealt over all cores, those that get none left out. None: rows cannot be cut so."""
    *outer, width = replace(result, shard=None).padded
    height = prod(outer)
    if by_column:
        grid = Grid(columns=grid.rows, rows=grid.columns)
    down = {"height": grid.cores, "width": 1, "block": grid.rows}[kind]
    across = {"height": 1, "width": grid.cores, "block": grid.columns}[kind]
    if result.is_tiled:
        part = height if down == 1 else _share(height, down), width if across == 1 else _share(width, across)
    else:
        element = result.dtype.element_bytes or 1
        part = _part_of_rows(kind, height, width, down, across, max(_ROW_QUANTUM_BYTES // element, 1))
        if not part[0] or width % part[1]:
            return None
    down, across = ceil_div(height, part[0]), ceil_div(width, part[1])
    if kind == "block":
        cores: tuple[CoreRange, ...] = (CoreRange(0, 0, across - 1, down - 1),)
    else:
        cores = fill_rows(down * across, grid)
    if by_column:
        cores = tuple(CoreRange(one.start_y, one.start_x, one.end_y, one.end_x) for one in cores)
    return Shard(kind, *part, cores, by_column)


def _part_of_rows(kind: str, height: int, width: int, down: int, across: int, unit: int) -> tuple[int, int]:
    """Aligned parts of rows: as many as come out even; of blocks as many as there are cores, or else squares as of
    tiles. (0, 0): there are none."""
    if kind == "block" and width % (across * unit):
        return _share(height, down), _share(width, across)
    if width % unit:
        return 0, 0
    return ceil_div(height, down), width // _even_parts(width // unit, across)


def rectangle(shard: Shard) -> CoreRange | None:
    """All cores in one, None where they are no rectangle."""
    ranges = shard.ranges
    box = CoreRange(
        min(r.start_x for r in ranges),
        min(r.start_y for r in ranges),
        max(r.end_x for r in ranges),
        max(r.end_y for r in ranges),
    )
    return box if box.cores == shard.cores else None


def _share(size: int, parts: int, unit: int = 32) -> int:
    return round_up(ceil_div(size, parts), unit)


def _even_parts(tiles: int, most: int) -> int:
    return max(parts for parts in range(1, most + 1) if tiles % parts == 0)
