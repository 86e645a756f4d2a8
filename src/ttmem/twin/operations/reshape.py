# SPDX-License-Identifier: Apache-2.0
"""Reshape: a view if the tile grid stays, otherwise a copy guided by a table that stays in DRAM."""

from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT16, DRAM, FLOAT32, INT32, UINT32, Memory
from ttmem.twin.operations import result_shards
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import (
    OWN_KERNELS,
    PADDED_SHARD_ROWS,
    cast,
    fill_in_place,
    has_padded_shard_rows,
    has_tile_padding,
    result_spec,
    spec_like,
)
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, dimension
from ttmem.twin.operations.record import Argument
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import ROW_MAJOR, InvalidSpecError, NdShard, Shard, TensorSpec

_MOVABLE = (BFLOAT16, FLOAT32, INT32, UINT32)
_BYTES_PER_SEGMENT = 16
_READ_BYTES, _WRITE_BYTES, _MOST_SLOTS = 64, 16, 8
"""Row-major copies: the alignment of reads and writes, and the most results in flight."""


def reshape(call: Call, plan: PlanBuilder) -> Plan:
    return _reshape_input(call, plan, infer_shape(call.inputs[0], call.arguments["shape"]))


def view(call: Call, plan: PlanBuilder) -> Plan:
    """Reshape without moving anything, or refuse."""
    source, shape = call.inputs[0], infer_shape(call.inputs[0], call.arguments["shape"])
    if not (source.shape and shape):
        return plan.unknown("views of scalars")
    (*_, height, width), (*_, new_height, new_width) = (1, *source.shape), (1, *shape)
    if width != new_width:
        raise InvalidSpecError(
            f"The last dimension can not change in view, attempting to change last dimension from {width} to "
            f"{new_width}, use reshape instead"
        )
    if source.is_tiled and height != new_height and (height % 32 or new_height % 32):
        raise InvalidSpecError(
            f"Invalid second last dims for TILED reshape, from {height} to {new_height}, use reshape instead"
        )
    return _reshape_input(call, plan, shape)


def unsqueeze(call: Call, plan: PlanBuilder) -> Plan:
    shape = list(call.inputs[0].shape)
    shape.insert(dimension(call.arguments["dim"], len(shape), new=1), 1)
    return _reshape_input(call, plan, tuple(shape))


def squeeze(call: Call, plan: PlanBuilder) -> Plan:
    """Remove the given dimension if its size is 1; without one remove all of size 1."""
    shape, dim = call.inputs[0].shape, call.arguments["dim"]
    gone = range(len(shape)) if dim is None or not shape else (dimension(dim, len(shape)),)
    return _reshape_input(call, plan, tuple(size for i, size in enumerate(shape) if i not in gone or size != 1))


def _reshape_input(call: Call, plan: PlanBuilder, shape: tuple[int, ...]) -> Plan:
    source = call.inputs[0]
    if has_padded_shard_rows(source):
        return plan.unknown(PADDED_SHARD_ROWS)
    wanted = result_spec(call, source)
    if is_same(source, shape) and source.elements and (wanted.memory, wanted.shard) != (source.memory, source.shard):
        return plan.unknown(OWN_KERNELS) if wanted.shard and source.shard else to_memory_config(call, plan)
    is_cut_alike = (wanted.shard is None) == (source.shard is None)
    if is_cut_alike and is_view(source, shape, call.memory):
        _check_single_row(source, shape)
        return plan.finish(-1, replace(source, shape=shape))
    if source.shard is not None or call.shard is not None:
        return _reshape_shards(call, plan, shape)
    result = replace(spec_like(source, call.memory), shape=shape)
    return plan.finish(reshape_tensor(plan, source, result), result)


def _check_single_row(source: TensorSpec, shape: tuple[int, ...]) -> None:
    """Refuse a sharded reshape to 1-D that would drop tile padding, unless one shard has the whole row."""
    padded, shard = source.padded, source.shard
    if isinstance(shard, Shard) and len(shape) == 1 < len(padded) and padded[-1] not in (shape[-1], shard.width):
        raise InvalidSpecError(
            "Changing the last dimension of a sharded tensor is not supported unless the shard width matches the input "
            f"last dimension. Input shape: Shape({list(padded)}), New shape: Shape({list(shape)}), Shard width: "
            f"{shard.width}"
        )


def _reshape_shards(call: Call, plan: PlanBuilder, shape: tuple[int, ...]) -> Plan:
    """Reshape tiles in shards; the shards of the result are computed from the new shape."""
    source, wanted = call.inputs[0], result_spec(call, call.inputs[0])
    if not source.is_tiled or source.dtype not in _MOVABLE or isinstance(wanted.shard, NdShard):
        return plan.unknown(OWN_KERNELS)
    if wanted.shard is not None:
        if len(shape) < 2:
            return plan.unknown("shards of a 1-D tensor")
        is_explicit = call.shard is not None
        shard = result_shards.choose_reshape_shard(source, wanted.shard, shape, is_explicit=is_explicit)
        if shard is None:
            return plan.unknown("shards on cores that do not form a rectangle")
        wanted = replace(wanted, shard=shard)
    result = replace(wanted, shape=shape)
    return plan.finish(_launch_tile_copy(plan, source, result), result)


def _copy_tiles(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> int:
    """Copy tiles; block floats are copied as bfloat16."""
    if not source.dtype.is_block_float:
        return _launch_tile_copy(plan, source, result)
    plain = replace(source, dtype=BFLOAT16)
    before = cast(plan, source, plain)
    after_spec = replace(result, dtype=BFLOAT16)
    after = _launch_tile_copy(plan, plain, after_spec)
    if has_tile_padding(result):
        fill_in_place(plan, after_spec)
    slot = cast(plan, after_spec, result)
    plan.free(after, before)
    return slot


def reshape_tensor(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> int:
    """Reshape an interleaved tensor as a step of other operations; slot 0: the result is the tensor itself."""
    if is_view(source, result.shape, result.memory):
        return 0
    if not source.is_tiled and not (source.shape and result.shape):
        raise InvalidSpecError(f"Can't do reshape {'to' if source.shape else 'from'} rank 0 tensor")
    if source.dtype not in _MOVABLE and not source.dtype.is_block_float:
        plan.allocate(result)  # the library allocates the result before it checks its type
        plan.refuse("Can only work with bfloat16/float32 or int32/uint32 tensors")
    return (_copy_rows if not source.is_tiled else _copy_tiles)(plan, source, result)


def infer_shape(source: TensorSpec, wanted: object) -> tuple[int, ...]:
    """Return the new shape with its -1 filled in."""
    if not isinstance(wanted, (list, tuple)):
        raise BadInputError(f"reshape needs a list of sizes, not {wanted!r}")
    shape = [int(size) for size in wanted]
    known = prod(size for size in shape if size != -1)
    if shape.count(-1) == 1 and known and source.elements % known == 0:
        shape[shape.index(-1)] = source.elements // known
    if -1 in shape or prod(shape) != source.elements:
        raise BadInputError(f"cannot reshape {list(source.shape)} to {list(wanted)}: Invalid arguments to reshape")
    return tuple(shape)


def is_same(source: TensorSpec, shape: tuple[int, ...]) -> bool:
    """Return whether the shape stays, padding included, so that at most a move is left."""
    return source.elements == 0 or (shape == source.shape and shape == source.padded)


def is_view(source: TensorSpec, shape: tuple[int, ...], memory: Memory | None = None) -> bool:
    """Return whether a reshape moves nothing: the width stays and, for tiles, the height stays or is never padded."""
    if is_same(source, shape):
        return True
    height, width = (1, 1, *source.shape)[-2:]
    new_height, new_width = (1, 1, *shape)[-2:]
    if memory is not None and memory.in_dram != source.memory.in_dram:
        return False
    if width != new_width:
        return False
    return not source.is_tiled or height == new_height or not (height % 32 or new_height % 32)


def _launch_tile_copy(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> int:
    """Launch the tile copy; the cached program keeps its table until the cache is cleared."""
    from ttmem.twin.operations.reshape_mapping_table import count_segments_per_tile

    slot = plan.allocate(result)
    before, after = _flatten_to_3d(source.shape), _flatten_to_3d(result.shape)
    segments = count_segments_per_tile(before, after)
    pages = after[0] * ceil_div(after[1], 32) * ceil_div(after[2], 32)
    table = TensorSpec((pages, segments * _BYTES_PER_SEGMENT // 4), UINT32, ROW_MAJOR, DRAM)
    plan.allocate(
        table,
        cache_key=("reshape", before, after, source.dtype.name, *((s.memory.name, s.shard) for s in (source, result))),
    )
    tile = source.dtype.tile_bytes(source.tile)
    plan.launch([segments * _BYTES_PER_SEGMENT, tile, tile])
    return slot


def _copy_rows(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> int:
    """Copy to rows of another length. A kernel reads two rows ahead; unaligned results wait in up to eight slots, as
    many as fit L1. Two kernels share the work if one row length divides the other.
    """
    slot = plan.allocate(result)
    before, after = compute_paging(source).page_bytes, compute_paging(result).page_bytes
    reads = 2 * ((before - 1) // _READ_BYTES * _READ_BYTES + 2 * _READ_BYTES)
    write = (after - 1) // _READ_BYTES * _READ_BYTES + _READ_BYTES + _WRITE_BYTES
    divides = before % after == 0 or after % before == 0
    kernels = 2 if divides and (after % _WRITE_BYTES == 0 or not result.memory.in_dram) else 1
    if not (before % _WRITE_BYTES or after % _WRITE_BYTES):
        plan.launch([reads, write] * kernels)
        return slot

    def compute_staging() -> list[list[int]]:
        space = plan.l1_space()
        if space < kernels * (reads + write):
            plan.refuse(
                f"RM reshape dest staging does not fit in L1: need at least {kernels * write} B dest + "
                f"{kernels * reads} B source, have {space} B"
            )
        slots = min(_MOST_SLOTS, (space - kernels * reads) // (kernels * write))
        return [[reads, slots * write] * kernels]

    plan.launch_kept(("reshape", source, result), compute_staging)
    return slot


def _flatten_to_3d(shape: tuple[int, ...]) -> tuple[int, int, int]:
    padded = (1, 1, 1, *shape)
    return prod(padded[:-2]), padded[-2], padded[-1]


RECORDS = tuple(
    build_record(
        format_call(name, [EXAMPLE_TENSOR], value),
        plan,
        argument,
        family="reshape",
        verified_low_rank_and_rare_types=True,
    )
    for name, plan, argument, value in (
        ("reshape", reshape, Argument("shape", 0), [1, 64, 2, 32]),
        ("view", view, Argument("shape", 0), [64, 64]),
        ("squeeze", squeeze, Argument("dim", 0, None), 0),
        ("unsqueeze", unsqueeze, Argument("dim", 0), 0),
    )
)
