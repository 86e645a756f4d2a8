# SPDX-License-Identifier: Apache-2.0
"""Shards that transpose and permute choose for their results, and when their kernels work on the shards themselves."""

from dataclasses import dataclass, replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import L1, Grid
from ttmem.twin.operations.conv_parallelization import fill_rows
from ttmem.twin.operations.plan import NoRuleError
from ttmem.twin.tensor_spec import CoreRange, Shard, TensorSpec, make_core_grid

WIDTH_AND_HEIGHT, HEIGHT_AND_CHANNELS, CHANNELS_AND_BATCH = (0, 1, 3, 2), (0, 2, 1, 3), (1, 0, 2, 3)
TRANSPOSES = (WIDTH_AND_HEIGHT, HEIGHT_AND_CHANNELS, CHANNELS_AND_BATCH)
_TILE_ELEMENTS = 1024


def of_transpose(source: TensorSpec, order: tuple[int, ...], grid: Grid, *, by_permute: bool = False) -> TensorSpec:
    """A result that nothing was said of: shards like those of the input where these are whole and in L1, and pages of
    L1 where such would be no whole tiles; of others the library makes some.
    """
    result = replace(source, shape=tuple(source.shape[d] for d in order))
    shard = _plain(source)
    if not _has_native_shards(source):
        after = _padded(result) if by_permute else _turned(source, order)
        return replace(result, shard=_like(source, after, grid))
    if order == CHANNELS_AND_BATCH or (order == HEIGHT_AND_CHANNELS and not source.is_tiled):
        return result
    before = source.padded
    turned: Shard | None
    if order == WIDTH_AND_HEIGHT and before[:2] == (1, 1) and shard.width == before[-1]:
        turned = replace(shard, kind="width", height=shard.width, width=shard.height)
    else:
        turned = _scaled(shard, before, _turned(source, order))
    if turned is None or not _fits(turned, source):
        return replace(result, shard=None)
    return replace(result, shard=turned)


def padded_like(source: TensorSpec, order: tuple[int, ...], result: TensorSpec) -> TensorSpec:
    """Rows that are longer in their shards leave them as they are, be they columns by then."""
    if source.is_tiled or result.shard is not None:
        return result
    stored = _turned(source, order)[-2:]
    rows, columns = (1 if one == own else one for one, own in zip(stored, result.shape[-2:], strict=True))
    return replace(result, alignment=(rows, columns))


def of_permute(source: TensorSpec, shape: tuple[int, ...], grid: Grid) -> Shard:
    """Shards of the same kind: as many as before, as large as the shape makes them, or else shared out anew."""
    return _like(source, _padded(replace(source, shape=shape)), grid)


def _turned(source: TensorSpec, order: tuple[int, ...]) -> tuple[int, ...]:
    """The stored shape. Channels have no tile padding, so the height loses its own."""
    if source.is_tiled:
        return _padded(replace(source, shape=tuple(source.shape[d] for d in order)))
    before = source.padded
    return tuple(before[d] for d in order)


def _like(source: TensorSpec, after: tuple[int, ...], grid: Grid) -> Shard:
    shard = _plain(source)
    scaled = _scaled(shard, source.padded, after)
    return scaled if scaled is not None and _fits(scaled, source) else _shared_out(shard, after, grid)


@dataclass(frozen=True, slots=True)
class Native:
    """Which kernels of transpose work on shards in their place."""

    width_and_height: bool
    height_and_channels: bool


def native_kernels(source: TensorSpec, result: TensorSpec) -> Native:
    one, two = source.shard, result.shard
    is_native = _has_native_shards(source) and _may_be_native(result)
    if not (is_native and isinstance(one, Shard) and isinstance(two, Shard) and _cores(one) == _cores(two)):
        return Native(False, False)
    before, after = source.padded, _padded(result)
    has_rows = one.width == before[-1], two.width == after[-1]
    holds_matrices = has_rows[0] and one.height % before[-2] == 0, has_rows[1] and two.height % after[-2] == 0
    turns_all = before[:2] == (1, 1) and has_rows[0] and two.height == after[-2]
    return Native(all(holds_matrices) or turns_all, all(has_rows) and not source.is_tiled)


def _plain(spec: TensorSpec) -> Shard:
    if not isinstance(spec.shard, Shard):
        raise NoRuleError("shards of many dimensions that change places")
    return spec.shard


def _padded(spec: TensorSpec) -> tuple[int, ...]:
    return replace(spec, shard=None).padded


def _cores(shard: Shard) -> frozenset[tuple[int, int]]:
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


def _scaled(shard: Shard, before: tuple[int, ...], after: tuple[int, ...]) -> Shard | None:
    """As much of the one shape as it was of the other; None where that is no whole number."""
    height, too_high = divmod(shard.height * prod(after[:-1]), prod(before[:-1]))
    width, too_wide = divmod(shard.width * after[-1], before[-1])
    return None if too_high or too_wide else replace(shard, height=height, width=width)


def _shared_out(shard: Shard, after: tuple[int, ...], grid: Grid) -> Shard:
    """Over all cores, those that get nothing left out."""
    height, width = prod(after[:-1]), after[-1]
    if shard.kind == "block":
        down, across = (grid.columns, grid.rows) if shard.by_column else (grid.rows, grid.columns)
        part = _share(height, down), _share(width, across)
        used = ceil_div(height, part[0]), ceil_div(width, part[1])
        columns, rows = used if shard.by_column else used[::-1]
        return replace(shard, height=part[0], width=part[1], ranges=make_core_grid(columns, rows))
    size = height if shard.kind == "height" else width
    part_size = _share(size, grid.cores)
    cores = _first_cores(ceil_div(size, part_size), grid, by_column=shard.by_column)
    if shard.kind == "height":
        return replace(shard, height=part_size, width=round_up(width, 32), ranges=cores)
    return replace(shard, height=height, width=part_size, ranges=cores)


def _share(size: int, parts: int) -> int:
    return round_up(ceil_div(size, parts), 32)


def _first_cores(cores: int, grid: Grid, *, by_column: bool) -> tuple[CoreRange, ...]:
    if not by_column:
        return fill_rows(cores, grid)
    columns, rest = divmod(cores, grid.rows)
    ranges = make_core_grid(columns, grid.rows) if columns else ()
    return (*ranges, CoreRange(columns, 0, columns, rest - 1)) if rest else ranges
