# SPDX-License-Identifier: Apache-2.0
"""Shards that the library chooses for a result, from those of the input; transposes that work on shards in place."""

from dataclasses import dataclass, replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import L1, Grid
from ttmem.twin.operations.conv_parallelization import fill_rows
from ttmem.twin.operations.plan import NoRuleError
from ttmem.twin.tensor_spec import CoreRange, Shard, TensorSpec, make_core_grid

_ROW_QUANTUM_BYTES = 16
"""The alignment of rows in L1 shards."""


def choose_slice_shard(source: TensorSpec, shape: tuple[int, ...], *, in_tiles: bool) -> Shard | None:
    """Return the shards of a slice: on the same cores, as small as the slice allows. None if the cores of block shards
    do not form a rectangle.
    """
    shard = source.shard
    assert isinstance(shard, Shard)
    *outer, width = replace(source, shape=shape, shard=None).padded if in_tiles else shape
    height, unit = prod(outer), 32 if in_tiles else 1
    if shard.kind == "height":
        return replace(shard, height=_share_size(height, shard.cores, unit), width=width)
    if shard.kind == "width":
        return replace(shard, height=height, width=_share_size(width, shard.cores, unit))
    box = find_rectangle(shard)
    # Rows of cores share the height, in either orientation of the shards.
    if box is None:
        return None
    return replace(shard, height=_share_size(height, box.rows, unit), width=_share_size(width, box.columns, unit))


def choose_split_shard(source: TensorSpec, axis: int, parts: int) -> Shard | None:
    """Return the shards of equal parts on the same cores. None if shards or padded tensor do not divide evenly."""
    shard, padded = source.shard, source.padded
    if not isinstance(shard, Shard) or padded[axis] % parts:
        return None
    is_width = axis == len(padded) - 1
    if (shard.width if is_width else shard.height) % parts:
        return None
    made = replace(shard, width=shard.width // parts) if is_width else replace(shard, height=shard.height // parts)
    is_cut = source.is_tiled and (made.height % 32 or made.width % 32)
    return None if is_cut else made


def choose_reshape_shard(
    source: TensorSpec, wanted: Shard, shape: tuple[int, ...], *, is_explicit: bool
) -> Shard | None:
    """Return the shards of reshaped tiles: on the ``wanted`` cores, block shards on as many as share the tiles evenly.
    Explicit block shards stay if they hold the result. None if the cores do not form a rectangle.
    """
    *outer, width = replace(source, shape=shape, shard=None).padded
    height = prod(outer)
    box = find_rectangle(wanted)
    if box is None:
        return None
    if wanted.kind == "height":
        return replace(wanted, height=_share_size(height, wanted.cores), width=width)
    if wanted.kind == "width":
        return replace(wanted, height=height, width=_share_size(width, wanted.cores))
    down, across = (box.columns, box.rows) if wanted.by_column else (box.rows, box.columns)
    is_whole = wanted.height % 32 == 0 and wanted.width % 32 == 0
    if is_explicit and is_whole and down * wanted.height >= height and across * wanted.width >= width:
        return wanted
    down, across = _count_even_parts(height // 32, down), _count_even_parts(width // 32, across)
    columns, rows = (down, across) if wanted.by_column else (across, down)
    cores = CoreRange(box.start_x, box.start_y, box.start_x + columns - 1, box.start_y + rows - 1)
    return replace(wanted, height=height // down, width=width // across, ranges=(cores,))


def spread_over_grid(result: TensorSpec, kind: str, grid: Grid, *, by_column: bool = False) -> Shard | None:
    """Return shards over the whole grid, without empty cores. None if rows cannot be divided that way."""
    *outer, width = replace(result, shard=None).padded
    height = prod(outer)
    if by_column:
        grid = Grid(columns=grid.rows, rows=grid.columns)
    down = {"height": grid.cores, "width": 1, "block": grid.rows}[kind]
    across = {"height": 1, "width": grid.cores, "block": grid.columns}[kind]
    if result.is_tiled:
        part = height if down == 1 else _share_size(height, down), width if across == 1 else _share_size(width, across)
    else:
        element = result.dtype.element_bytes or 1
        part = _choose_row_part(kind, height, width, down, across, max(_ROW_QUANTUM_BYTES // element, 1))
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


def _choose_row_part(kind: str, height: int, width: int, down: int, across: int, unit: int) -> tuple[int, int]:
    """Return the height and width of aligned row-major parts that divide evenly; blocks fall back to whole tiles.
    (0, 0) if there are none."""
    if kind == "block" and width % (across * unit):
        return _share_size(height, down), _share_size(width, across)
    if width % unit:
        return 0, 0
    return ceil_div(height, down), width // _count_even_parts(width // unit, across)


def find_rectangle(shard: Shard) -> CoreRange | None:
    """Return the rectangle of all cores, None if they do not form one."""
    box = bound_cores(shard)
    return box if box.cores == shard.cores else None


def bound_cores(shard: Shard) -> CoreRange:
    """Return the bounding box of all cores."""
    starts = (min(getattr(one, name) for one in shard.ranges) for name in ("start_x", "start_y"))
    return CoreRange(*starts, *(max(getattr(one, name) for one in shard.ranges) for name in ("end_x", "end_y")))


def _share_size(size: int, parts: int, unit: int = 32) -> int:
    return round_up(ceil_div(size, parts), unit)


def _count_even_parts(tiles: int, most: int) -> int:
    return max(parts for parts in range(1, most + 1) if tiles % parts == 0)


WIDTH_AND_HEIGHT, HEIGHT_AND_CHANNELS, CHANNELS_AND_BATCH = (0, 1, 3, 2), (0, 2, 1, 3), (1, 0, 2, 3)
TRANSPOSES = (WIDTH_AND_HEIGHT, HEIGHT_AND_CHANNELS, CHANNELS_AND_BATCH)
_TILE_ELEMENTS = 1024


def choose_transpose_result(
    source: TensorSpec, order: tuple[int, ...], grid: Grid, *, by_permute: bool = False
) -> TensorSpec:
    """Return a result without requested shards: shards like those of the input if these are whole and in L1, else
    shards that the library makes; pages of L1 if the new shards would not be whole tiles.
    """
    result = replace(source, shape=tuple(source.shape[d] for d in order))
    shard = _read_plain_shard(source)
    if not _has_native_shards(source):
        after = _compute_padded_shape(result) if by_permute else _compute_stored_shape(source, order)
        return replace(result, shard=_choose_shard(source, after, grid))
    if order == CHANNELS_AND_BATCH or (order == HEIGHT_AND_CHANNELS and not source.is_tiled):
        return result
    before = source.padded
    turned: Shard | None
    if order == WIDTH_AND_HEIGHT and before[:2] == (1, 1) and shard.width == before[-1]:
        turned = replace(shard, kind="width", height=shard.width, width=shard.height)
    else:
        turned = _scale(shard, before, _compute_stored_shape(source, order))
    if turned is None or not _fits(turned, source):
        return replace(result, shard=None)
    return replace(result, shard=turned)


def pad_result_spec(source: TensorSpec, order: tuple[int, ...], result: TensorSpec) -> TensorSpec:
    """Return the result's spec with the row padding that the input's shards have."""
    if source.is_tiled or result.shard is not None:
        return result
    stored = _compute_stored_shape(source, order)[-2:]
    rows, columns = (1 if one == own else one for one, own in zip(stored, result.shape[-2:], strict=True))
    return replace(result, alignment=(rows, columns))


def choose_permute_shard(source: TensorSpec, shape: tuple[int, ...], grid: Grid) -> Shard:
    """Return shards of the same kind, scaled to the new shape if possible, else distributed anew."""
    return _choose_shard(source, _compute_padded_shape(replace(source, shape=shape)), grid)


def _compute_stored_shape(source: TensorSpec, order: tuple[int, ...]) -> tuple[int, ...]:
    """Return the stored shape of the result. Channels have no tile padding, so the height loses its own."""
    if source.is_tiled:
        return _compute_padded_shape(replace(source, shape=tuple(source.shape[d] for d in order)))
    before = source.padded
    return tuple(before[d] for d in order)


def _choose_shard(source: TensorSpec, after: tuple[int, ...], grid: Grid) -> Shard:
    shard = _read_plain_shard(source)
    scaled = _scale(shard, source.padded, after)
    return scaled if scaled is not None and _fits(scaled, source) else _share_over_grid(shard, after, grid)


@dataclass(frozen=True, slots=True)
class NativeKernels:
    """Flags of the transpose kernels that work on shards in place."""

    width_and_height: bool
    height_and_channels: bool


def find_native_kernels(source: TensorSpec, result: TensorSpec) -> NativeKernels:
    one, two = source.shard, result.shard
    is_native = _has_native_shards(source) and _may_be_native(result)
    if not (
        is_native
        and isinstance(one, Shard)
        and isinstance(two, Shard)
        and _list_shard_cores(one) == _list_shard_cores(two)
    ):
        return NativeKernels(False, False)
    before, after = source.padded, _compute_padded_shape(result)
    has_rows = one.width == before[-1], two.width == after[-1]
    holds_matrices = has_rows[0] and one.height % before[-2] == 0, has_rows[1] and two.height % after[-2] == 0
    turns_all = before[:2] == (1, 1) and has_rows[0] and two.height == after[-2]
    return NativeKernels(all(holds_matrices) or turns_all, all(has_rows) and not source.is_tiled)


def _read_plain_shard(spec: TensorSpec) -> Shard:
    if not isinstance(spec.shard, Shard):
        raise NoRuleError("a transpose of ND shards")
    return spec.shard


def _compute_padded_shape(spec: TensorSpec) -> tuple[int, ...]:
    return replace(spec, shard=None).padded


def _list_shard_cores(shard: Shard) -> frozenset[tuple[int, int]]:
    return frozenset(core for cores in shard.ranges for core in cores.walk())


def _may_be_native(spec: TensorSpec) -> bool:
    shard = spec.shard
    if not isinstance(shard, Shard) or spec.memory is not L1 or shard.kind == "block":
        return False
    return spec.is_tiled or shard.height * shard.width % _TILE_ELEMENTS == 0


def _has_native_shards(spec: TensorSpec) -> bool:
    if not _may_be_native(spec) or not isinstance(spec.shard, Shard):
        return False
    *outer, width = spec.padded
    return not (prod(outer) % spec.shard.height or width % spec.shard.width)


def _fits(shard: Shard, source: TensorSpec) -> bool:
    return not source.is_tiled or not (shard.height % 32 or shard.width % 32)


def _scale(shard: Shard, before: tuple[int, ...], after: tuple[int, ...]) -> Shard | None:
    """Scale a shard from one shape to the other; None if it does not divide evenly."""
    height, too_high = divmod(shard.height * prod(after[:-1]), prod(before[:-1]))
    width, too_wide = divmod(shard.width * after[-1], before[-1])
    return None if too_high or too_wide else replace(shard, height=height, width=width)


def _share_over_grid(shard: Shard, after: tuple[int, ...], grid: Grid) -> Shard:
    """Distribute over all cores, without empty ones."""
    height, width = prod(after[:-1]), after[-1]
    if shard.kind == "block":
        down, across = (grid.columns, grid.rows) if shard.by_column else (grid.rows, grid.columns)
        part = _share_size(height, down), _share_size(width, across)
        used = ceil_div(height, part[0]), ceil_div(width, part[1])
        columns, rows = used if shard.by_column else used[::-1]
        return replace(shard, height=part[0], width=part[1], ranges=make_core_grid(columns, rows))
    size = height if shard.kind == "height" else width
    part_size = _share_size(size, grid.cores)
    cores = _select_first_cores(ceil_div(size, part_size), grid, by_column=shard.by_column)
    if shard.kind == "height":
        return replace(shard, height=part_size, width=round_up(width, 32), ranges=cores)
    return replace(shard, height=height, width=part_size, ranges=cores)


def _select_first_cores(cores: int, grid: Grid, *, by_column: bool) -> tuple[CoreRange, ...]:
    if not by_column:
        return fill_rows(cores, grid)
    columns, rest = divmod(cores, grid.rows)
    ranges = make_core_grid(columns, grid.rows) if columns else ()
    return (*ranges, CoreRange(columns, 0, columns, rest - 1)) if rest else ranges
