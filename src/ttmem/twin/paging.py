# SPDX-License-Identifier: Apache-2.0
"""Shape to padded shape, physical shape and pages: everything about a spec that no board decides."""

from dataclasses import dataclass
from math import prod

from ttmem.base.arithmetic import ceil_div
from ttmem.twin.tensor_spec import InvalidSpecError, Shard, TensorSpec


@dataclass(frozen=True, slots=True)
class Paging:
    """A spec cut into pages, the units that are dealt to banks."""

    padded_shape: tuple[int, ...]
    physical_height: int
    physical_width: int
    """The padded shape as two dimensions; only these are stored."""
    page_height: int
    page_width: int
    page_bytes: int
    """Without alignment."""
    pages: int

    @property
    def padded_bytes(self) -> int:
        """Bytes of all pages, before alignment."""
        return self.pages * self.page_bytes


def paging_of(spec: TensorSpec) -> Paging:
    """Pages of a spec, or the library's reason to refuse its shape and layout."""
    _check_layout(spec)
    padded_shape = spec.padded
    width = padded_shape[-1]
    height = prod(padded_shape[:-1])
    _check_shard_fits(spec, height, width)
    _check_dtype(spec)
    if len(padded_shape) == 1 and isinstance(spec.shard, Shard) and spec.shard.height != 1:
        raise InvalidSpecError("Shard shape must be 1D for 1D tensor!")
    page_height, page_width = _page_shape(spec, height, width)
    if spec.is_tiled:
        page_bytes = spec.dtype.tile_bytes(spec.tile)
    else:
        page_bytes = page_width * spec.element_bytes
    pages = (height // page_height) * (width // page_width) if page_width else 0
    return Paging(padded_shape, height, width, page_height, page_width, page_bytes, pages)


def _check_layout(spec: TensorSpec) -> None:
    if not spec.is_tiled:
        if (spec.tile.height, spec.tile.width) != (32, 32):
            raise InvalidSpecError(
                "Configuring a ROW MAJOR page config with a custom tile configuration is not supported."
            )
        return
    if not spec.tile.is_legal:
        raise InvalidSpecError(f"tile {spec.tile} is not one of the library's tile shapes")
    shard, tile = spec.shard, spec.tile
    if shard is not None and (shard.height % tile.height or shard.width % tile.width):
        printed = f"({shard.height}, {shard.width})" if isinstance(shard, Shard) else f"Shape({list(shard.shape)})"
        raise InvalidSpecError(f"Physical shard shape {printed} must be tile {{{tile.height}, {tile.width}}} sized!")


def _check_dtype(spec: TensorSpec) -> None:
    if not spec.dtype.in_ttnn:
        raise InvalidSpecError(f"ttnn has no device tensors of type {spec.dtype}")
    if spec.dtype.is_block_float and not spec.is_tiled:
        raise InvalidSpecError("Only TILE layout is supported for BFLOAT8_B dtype!")
    if spec.dtype.row_major_only and spec.is_tiled:
        raise InvalidSpecError(f"Only ROW_MAJOR layout is supported for {spec.dtype.name.upper()} dtype!")


def _page_shape(spec: TensorSpec, physical_height: int, physical_width: int) -> tuple[int, int]:
    if spec.is_tiled:
        return spec.tile.height, spec.tile.width
    if physical_height == 0 or physical_width == 0:
        # One 32-bit word, whatever the element: nothing is stored, but shard widths are checked against it.
        return 1, 4 // (spec.dtype.element_bytes or 4)
    shard = spec.shard
    if shard is None or (isinstance(shard, Shard) and shard.kind == "height"):
        return 1, physical_width
    return 1, shard.width


def _check_shard_fits(spec: TensorSpec, height: int, width: int) -> None:
    """Legacy shards: the whole tensor must be covered with at most one shard per core."""
    shard = spec.shard
    if not isinstance(shard, Shard):
        return
    shards = {"height": ceil_div(height, shard.height), "width": ceil_div(width, shard.width)}
    if shard.kind == "block":
        _check_block(shard, shards)
        return
    across, needed, has = ("width", shard.width, width) if shard.kind == "height" else ("height", shard.height, height)
    if has != needed:
        raise InvalidSpecError(f"Shard {across} {needed} must match physical {across} {has} for {shard.kind} sharded")
    if shards[shard.kind] > shard.cores:
        raise InvalidSpecError(
            f"Number of shards along {shard.kind} {shards[shard.kind]} must not exceed number of cores {shard.cores}"
        )


def _check_block(shard: Shard, shards: dict[str, int]) -> None:
    if len(shard.ranges) != 1:
        raise InvalidSpecError("Shard grid must be one full rectangular grid for block sharded!")
    grid = shard.ranges[0]
    lines = [("rows", grid.rows), ("columns", grid.columns)]
    orientation = "column" if shard.by_column else "row"
    for (along, count), (name, limit) in zip(shards.items(), lines[:: -1 if shard.by_column else 1], strict=True):
        if count > limit:
            raise InvalidSpecError(
                f"Number of shards along {along} {count} must not exceed number of {name} {limit} "
                f"for {orientation} major orientation!"
            )
