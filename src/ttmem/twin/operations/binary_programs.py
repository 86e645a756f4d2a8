# SPDX-License-Identifier: Apache-2.0
"""The programs of operations on two tensors: streams of tiles, and shards that are used in place."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ttmem.hardware import BFLOAT16, DRAM, FLOAT32, INT32, UINT16, UINT32, DataType
from ttmem.twin.operations.elementwise import (
    broadcast_shape,
    double_buffered_tiles,
    dtype_name,
    has_whole_shards,
    result_spec,
)
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import CoreRange, InvalidSpecError, Shard, TensorSpec

_INTEGERS = 1 << 32
"""The library multiplies before it divides in 32 bits, so larger products wrap."""


@dataclass(frozen=True, slots=True)
class BinaryKind:
    """A binary operation: its name in the library and the types that it takes."""

    called: str
    """Its name in messages."""
    integers: tuple[DataType, ...] = (INT32, UINT32, UINT16)
    """The integer types that it takes."""
    mixes_floats: bool = True
    takes_floats: bool = True
    prepares: str = ""
    """The operands that pass through one more tile first: ``left`` or ``both``."""
    promotes: bool = False
    """Whether an integer becomes a float next to a float."""
    number_is_unary: str = ""
    """The name of the unary operation that the library runs for a number; empty: none."""

    def takes(self, dtype: DataType) -> bool:
        return self.takes_floats if dtype.is_float else dtype in self.integers


def check_types(kind: BinaryKind, operands: Sequence[TensorSpec]) -> None:
    for letter, spec in zip("AB", operands, strict=False):
        if not kind.takes(spec.dtype):
            raise InvalidSpecError(
                f"Input tensor {letter} dtype {dtype_name(spec.dtype)} is not supported for binary operation "
                f"BinaryOpType::{kind.called}"
            )
    types = [spec.dtype for spec in operands]
    if len(set(types)) == 2 and not (kind.mixes_floats and all(dtype.is_float for dtype in types)):
        raise InvalidSpecError(
            f"Mixed dtype is not supported for binary operation BinaryOpType::{kind.called}, "
            f"dtype A: {dtype_name(types[0])}, dtype B: {dtype_name(types[1])}"
        )


def list_streams(
    kind: BinaryKind, operands: Sequence[TensorSpec], result: TensorSpec, *, borrowed: bool = False, at_once: int = 1
) -> list[int]:
    """Return two tiles for each tensor and the result, none for shards that are ``borrowed``.

    A number is one tile, bfloat16 next to block floats. Prepared operands are prepared ``at_once`` tiles at a time
    unless a tensor has to be read.
    """
    first = operands[0]
    tiles = [spec.dtype.tile_bytes(spec.tile) for spec in operands]
    lent = [borrowed and spec.shard is not None for spec in operands]
    list_streams = [0 if is_lent else 2 * tile for is_lent, tile in zip(lent, tiles, strict=True)]
    at_once = at_once if all(lent) else 1
    prepares_left = kind.prepares == "both" or (
        kind.prepares == "left" and first.dtype.is_float and not all(spec.dtype is FLOAT32 for spec in operands)
    )
    buffers = [list_streams[0], at_once * tiles[0] if prepares_left else 0]
    if len(operands) == 1:
        number = (BFLOAT16 if first.dtype.is_block_float else first.dtype).tile_bytes(first.tile)
        buffers += [number, at_once * number if kind.prepares == "both" else 0]
    else:
        buffers += [list_streams[1], at_once * tiles[1] if kind.prepares == "both" else 0]
        buffers += _broadcast_stream(*operands)
    if not (borrowed and result.shard is not None):
        buffers += double_buffered_tiles(result)
    return [size for size in buffers if size]


def _broadcast_stream(first: TensorSpec, second: TensorSpec) -> list[int]:
    """Return the stream of the operand that is repeated within tiles: height 1 first, then width 1."""
    one, two = ((1, 1, *spec.shape)[-2:] for spec in (first, second))
    if one == two:
        return []
    axis = 0 if one[0] != two[0] else 1
    return double_buffered_tiles(first if one[axis] == 1 else second)


def binary_result_spec(call: Call, operands: Sequence[TensorSpec]) -> TensorSpec:
    """Return the first operand's spec; from DRAM or fewer cores it moves to the second's memory and shards."""
    first = operands[0]
    if call.memory is not None or len(operands) == 1:
        return result_spec(call, first)
    second, lends = operands[1], first
    if isinstance(second.shard, Shard) and (
        (first.shard is None and first.memory is DRAM)
        or (isinstance(first.shard, Shard) and second.shard.cores > first.shard.cores)
    ):
        lends = second
    shard = lends.shard
    if isinstance(shard, Shard):
        shard = grow_shard(shard, lends, replace(lends, shape=broadcast_shape(first.shape, second.shape)))
    return replace(first, memory=lends.memory, shard=shard)


def grow_shard(shard: Shard, before: TensorSpec, after: TensorSpec) -> Shard:
    """Scale a shard by the ratio of two shapes, to at least one tile."""
    (*one, width), (*two, wider) = (replace(spec, shard=None).padded for spec in (before, after))
    height, width = shard.height * prod(two) % _INTEGERS // prod(one), shard.width * wider % _INTEGERS // width
    return replace(shard, height=max(height, 32), width=max(width, 32))


def combine_shards(
    plan: PlanBuilder, kind: BinaryKind, operands: Sequence[TensorSpec], result: TensorSpec, temporaries: list[int]
) -> Plan:
    """Plan sharded operands: used in place if all have the same shard, otherwise read and written as interleaved."""
    shape = operands[0].shape if len(operands) == 1 else broadcast_shape(operands[0].shape, operands[1].shape)
    result = replace(result, shape=shape)
    slot = plan.allocate(result)
    check_types(kind, operands)
    buffers = list_streams(kind, operands, result)
    if _works_in_place(operands, result):
        wide = [spec.dtype is FLOAT32 or not spec.dtype.is_float for spec in operands]
        tiles_at_once = 2 if all(wide) else 4 if any(wide) else 8
        buffers = list_streams(kind, operands, result, borrowed=True, at_once=tiles_at_once)
    plan.launch(buffers, CIRCULAR)
    plan.free(*reversed(temporaries))
    return plan.finish(slot, result)


def _works_in_place(operands: Sequence[TensorSpec], result: TensorSpec) -> bool:
    first = operands[0]
    if result.shard is None or any(spec.shard is not None and spec.memory is DRAM for spec in (*operands, result)):
        return False
    if len(operands) == 1:
        return _are_cut_alike(first, result) and has_whole_shards(first)
    second = operands[1]
    one, two = ((1, 1, *spec.shape)[-2:] for spec in (first, second))
    if has_whole_shards(first) and first.shape == result.shape and second.shard is None and one != two:
        # Rows or numbers that are repeated within a shard of whole rows.
        is_height = isinstance(first.shard, Shard) and first.shard.kind == "height"
        return is_height and two[1] == 1 and _are_cut_alike(first, result)
    if first.shape != second.shape or first.shard != second.shard or first.memory is not second.memory:
        return False
    if first.shard is not None and not has_whole_shards(first):
        return _are_cut_alike(first, result)
    if DRAM in (first.memory, result.memory) or not has_whole_shards(result):
        return False
    return first.shard is None or _ranges(first) == _ranges(result)


def _are_cut_alike(first: TensorSpec, result: TensorSpec) -> bool:
    """Compare shape, cores and orientation of two shards; the library ignores the kind of a result."""
    one, two = first.shard, result.shard
    if isinstance(one, Shard) and isinstance(two, Shard):
        return replace(one, kind=two.kind) == two
    return one == two


def _ranges(spec: TensorSpec) -> tuple[CoreRange, ...]:
    return spec.shard.ranges if spec.shard is not None else ()
