# SPDX-License-Identifier: Apache-2.0
"""What operations on two tensors launch: streams of tiles, and shards that are worked on where they lie."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ttmem.hardware import BFLOAT16, DRAM, FLOAT32, INT32, UINT16, UINT32, DataType
from ttmem.twin.operations.elementwise import (
    broadcast_shape,
    double_buffered_tiles,
    has_whole_shards,
    spell_type,
    wanted_like,
)
from ttmem.twin.operations.plan import Call, Plan, PlanWriter
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import CoreRange, InvalidSpecError, Shard, TensorSpec

_INTEGERS = 1 << 32
"""The library multiplies before it divides, and what does not fit is lost."""


@dataclass(frozen=True, slots=True)
class BinaryKind:
    """What the library makes of an operation of two operands."""

    called: str
    """Its name in messages."""
    integers: tuple[DataType, ...] = (INT32, UINT32, UINT16)
    """Those it takes, besides floats."""
    mixes_floats: bool = True
    takes_floats: bool = True
    prepares: str = ""
    """Operands that pass through one more tile before they meet: ``left``, ``both``."""
    promotes: bool = False
    """An integer becomes a float when the other operand is one."""
    number_is_unary: str = ""
    """With a number it is a unary operation that the library calls so."""

    def takes(self, dtype: DataType) -> bool:
        return self.takes_floats if dtype.is_float else dtype in self.integers


def check_types(kind: BinaryKind, operands: Sequence[TensorSpec]) -> None:
    for letter, spec in zip("AB", operands, strict=False):
        if not kind.takes(spec.dtype):
            raise InvalidSpecError(
                f"Input tensor {letter} dtype {spell_type(spec.dtype)} is not supported for binary operation "
                f"BinaryOpType::{kind.called}"
            )
    types = [spec.dtype for spec in operands]
    if len(set(types)) == 2 and not (kind.mixes_floats and all(dtype.is_float for dtype in types)):
        raise InvalidSpecError(
            f"Mixed dtype is not supported for binary operation BinaryOpType::{kind.called}, "
            f"dtype A: {spell_type(types[0])}, dtype B: {spell_type(types[1])}"
        )


def streams(
    kind: BinaryKind, operands: Sequence[TensorSpec], result: TensorSpec, *, borrowed: bool = False, at_once: int = 1
) -> list[int]:
    """Two tiles of each tensor and of the result, or none where shards are ``borrowed``; a number travels as one tile,
    which block floats take as bfloat16. Operands that are prepared are so some tiles ``at_once``, unless a tensor has
    to be read for them.
    """
    first = operands[0]
    tiles = [spec.dtype.tile_bytes(spec.tile) for spec in operands]
    lent = [borrowed and spec.shard is not None for spec in operands]
    streams = [0 if is_lent else 2 * tile for is_lent, tile in zip(lent, tiles, strict=True)]
    at_once = at_once if all(lent) else 1
    prepares_left = kind.prepares == "both" or (
        kind.prepares == "left" and first.dtype.is_float and not all(spec.dtype is FLOAT32 for spec in operands)
    )
    buffers = [streams[0], at_once * tiles[0] if prepares_left else 0]
    if len(operands) == 1:
        number = (BFLOAT16 if first.dtype.is_block_float else first.dtype).tile_bytes(first.tile)
        buffers += [number, at_once * number if kind.prepares == "both" else 0]
    else:
        buffers += [streams[1], at_once * tiles[1] if kind.prepares == "both" else 0]
        buffers += _broadcast_stream(*operands)
    if not (borrowed and result.shard is not None):
        buffers += double_buffered_tiles(result)
    return [size for size in buffers if size]


def _broadcast_stream(first: TensorSpec, second: TensorSpec) -> list[int]:
    """Of the operand that is repeated inside its tiles: the one of height 1, at equal heights that of width 1."""
    one, two = ((1, 1, *spec.shape)[-2:] for spec in (first, second))
    if one == two:
        return []
    axis = 0 if one[0] != two[0] else 1
    return double_buffered_tiles(first if one[axis] == 1 else second)


def result_of(call: Call, operands: Sequence[TensorSpec]) -> TensorSpec:
    """Like the first, unless that is in DRAM and the second in shards, or in more of them; its shards grow with it."""
    first = operands[0]
    if call.memory is not None or len(operands) == 1:
        return wanted_like(call, first)
    second, lends = operands[1], first
    if isinstance(second.shard, Shard) and (
        (first.shard is None and first.memory is DRAM)
        or (isinstance(first.shard, Shard) and second.shard.cores > first.shard.cores)
    ):
        lends = second
    shard = lends.shard
    if isinstance(shard, Shard):
        shard = grown(shard, lends, replace(lends, shape=broadcast_shape(first.shape, second.shape)))
    return replace(first, memory=lends.memory, shard=shard)


def grown(shard: Shard, before: TensorSpec, after: TensorSpec) -> Shard:
    """As much larger as the tensor is, and a tile at least."""
    (*one, width), (*two, wider) = (replace(spec, shard=None).padded for spec in (before, after))
    height, width = shard.height * prod(two) % _INTEGERS // prod(one), shard.width * wider % _INTEGERS // width
    return replace(shard, height=max(height, 32), width=max(width, 32))


def on_shards(
    plan: PlanWriter, kind: BinaryKind, operands: Sequence[TensorSpec], result: TensorSpec, temporaries: list[int]
) -> Plan:
    """Streams of a tensor that is in shards borrow these where all that take part are cut alike; otherwise everything
    is read and written as if it were interleaved.
    """
    shape = operands[0].shape if len(operands) == 1 else broadcast_shape(operands[0].shape, operands[1].shape)
    result = replace(result, shape=shape)
    slot = plan.allocate(result)
    check_types(kind, operands)
    buffers = streams(kind, operands, result)
    if _borrows(operands, result):
        wide = [spec.dtype is FLOAT32 or not spec.dtype.is_float for spec in operands]
        tiles_at_once = 2 if all(wide) else 4 if any(wide) else 8
        buffers = streams(kind, operands, result, borrowed=True, at_once=tiles_at_once)
    plan.launch(buffers, CIRCULAR)
    plan.free(*reversed(temporaries))
    return plan.finish(slot, result)


def _borrows(operands: Sequence[TensorSpec], result: TensorSpec) -> bool:
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
    """Of a result the library compares shape, cores and their order, not the kind."""
    one, two = first.shard, result.shard
    if isinstance(one, Shard) and isinstance(two, Shard):
        return replace(one, kind=two.kind) == two
    return one == two


def _ranges(spec: TensorSpec) -> tuple[CoreRange, ...]:
    return spec.shard.ranges if spec.shard is not None else ()
