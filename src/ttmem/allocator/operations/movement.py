# SPDX-License-Identifier: Apache-2.0
"""Concat, slice, pad, copies between memories and between layouts."""

from dataclasses import replace
from functools import partial

from ttmem._errors import BadInputError
from ttmem.allocator.operations import draws
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import cast, double_buffered_rows, double_buffered_tiles, result_like
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.hardware import BFLOAT16, DRAM
from ttmem.tensors import ROW_MAJOR, TILE, TensorSpec, paging_of


def concat(call: Call, plan: PlanWriter) -> Plan:
    """The result goes to DRAM unless the caller says otherwise, whatever the inputs."""
    first, rank = call.inputs[0], len(call.inputs[0].shape)
    if len(call.inputs) == 1:
        return to_memory_config(replace(call, memory=call.memory or DRAM), plan)
    axis = int(call.arguments["dim"]) % rank
    others = [spec.shape[:axis] + spec.shape[axis + 1 :] for spec in call.inputs]
    if any(other != others[0] for other in others):
        raise BadInputError(
            "All dimensions must be the same size except for the dimension along which the contenation is taking place."
        )
    shape = list(first.shape)
    shape[axis] = sum(spec.shape[axis] for spec in call.inputs)
    result = replace(result_like(first, call.memory or DRAM), shape=tuple(shape))
    if any(spec.shard is not None for spec in call.inputs):
        return plan.one_program(result, [], at_least="concat of sharded tensors picks its own kernels")
    padded = first.layout is TILE and (
        rank == 1 or (axis >= rank - 2 and any(spec.shape[axis] % 32 for spec in call.inputs))
    )
    if not padded:
        return _join(call, plan, result, axis)
    # Tiles with padding in the middle cannot be joined: kernels and temporaries differ from type to type.
    result = replace(result, dtype=BFLOAT16 if first.dtype.is_block_float else first.dtype)
    return plan.one_program(result, double_buffered_tiles(first), at_least="concat along a padded dimension")


def _join(call: Call, plan: PlanWriter, result: TensorSpec, axis: int) -> Plan:
    is_last = axis == len(result.shape) - 1
    if result.layout is TILE:
        # The library measures rows even of tiles: bfloat8_b on Blackhole may fail this and is transposed twice instead.
        narrow = is_last and any(
            spec.shape[-1] * (spec.dtype.mantissa_bits // 8) % plan.memory_map.page_alignment_bytes(spec.memory)
            for spec in call.inputs
        )
        why = "rows of less than the alignment are transposed first" if narrow else ""
        return plan.one_program(result, double_buffered_tiles(result), at_least=why)
    if is_last:
        pages = [2 * paging_of(result).page_bytes]
        return plan.one_program(result, pages, at_least="row-major concat along the last dimension")
    return plan.one_program(result, double_buffered_rows(plan, result, *call.inputs, result))


def slice_(call: Call, plan: PlanWriter) -> Plan:
    """A slice that starts on a tile boundary copies tiles; any other goes through row-major copies."""
    source, rank = call.inputs[0], len(call.inputs[0].shape)
    begins = [int(b) for b in call.arguments["begins"]]
    ends = [int(e) for e in call.arguments["ends"]]
    steps = [int(s) for s in call.arguments["steps"] or [1] * rank]
    if not len(begins) == len(ends) == len(steps) == rank:
        raise BadInputError(f"begins, ends and steps of a slice need {rank} numbers each")
    for size, begin, end, step in zip(source.shape, begins, ends, steps, strict=True):
        if not (0 <= begin < end <= size and step > 0):
            raise BadInputError(f"slice {begin}:{end}:{step} of a dimension of {size}")
    shape = tuple(-(-(e - b) // s) for b, e, s in zip(begins, ends, steps, strict=True))
    result = replace(result_like(source, call.memory), shape=shape)
    if shape == source.shape:
        return to_memory_config(call, plan)
    if source.layout is TILE and source.shard is None and rank >= 2 and set(steps) == {1}:
        if begins[-1] % source.tile.width == 0 and begins[-2] % source.tile.height == 0:
            return plan.one_program(result, [*double_buffered_tiles(source), 4 * rank])
        plain = BFLOAT16 if source.dtype.is_block_float else source.dtype
        rows = plan.allocate(replace(result_like(source, call.memory), layout=ROW_MAJOR, dtype=plain))
        cut = plan.allocate(replace(result, layout=ROW_MAJOR, dtype=plain))
        why = "a slice off the tile grid goes through row-major copies"
        plan.launch(double_buffered_tiles(source), at_least=why)
        result = replace(result, dtype=plain)
        slot = plan.allocate(result)
        plan.free(cut, rows)
        return plan.finish(slot, result)
    why = "row-major, strided and sharded slices size their buffers by what is left of L1"
    return plan.one_program(result, [], at_least=why)


def pad(call: Call, plan: PlanWriter) -> Plan:
    """Padding at the ends; what hides in the last tiles is overwritten in place first."""
    source = call.inputs[0]
    padding = [(int(before), int(after)) for before, after in call.arguments["padding"]]
    padding = [(0, 0)] * (len(source.shape) - len(padding)) + padding
    shape = tuple(size + b + a for size, (b, a) in zip(source.shape, padding, strict=True))
    result = replace(result_like(source, call.memory), shape=shape)
    if shape == source.shape:
        return plan.finish(-1, source)
    if len(shape) > 4:
        return plan.give_up("pad of more than four dimensions goes in stages")
    if source.layout is not TILE or source.shard is not None or any(before for before, _ in padding):
        return plan.one_program(result, [], at_least="only padding at the end of interleaved tiles is modelled")
    filled_slot = fill_padding(plan, source)
    if paging_of(result).padded_shape == paging_of(source).padded_shape:
        # Room enough in the tiles that are there: the (filled) input under a new shape, whatever memory was asked for.
        return plan.finish(filled_slot, replace(source, shape=shape))
    if not source.dtype.is_block_float:
        slot = _pad(plan, source, result)
        plan.free(filled_slot)
        return plan.finish(slot, result)
    plain = cast(plan, source, replace(source, dtype=BFLOAT16))
    wide_spec = replace(result, dtype=BFLOAT16)
    wide = _pad(plan, replace(source, dtype=BFLOAT16), wide_spec)
    slot = cast(plan, wide_spec, result)
    plan.free(wide, plain, filled_slot)
    return plan.finish(slot, result)


def _pad(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> int:
    slot = plan.allocate(result)
    plan.launch([*double_buffered_tiles(source), source.dtype.tile_bytes(source.tile)])
    return slot


def has_tile_padding(spec: TensorSpec) -> bool:
    height, width = (1, 1, *spec.shape)[-2:]
    return bool(height % spec.tile.height or width % spec.tile.width)


def fill_padding(plan: PlanWriter, spec: TensorSpec) -> int:
    """Write a value into the unused part of the last tiles, if any: in place, or for block floats through bfloat16.

    Returns the slot of the filled tensor, -1 when it is the input itself.
    """
    if not has_tile_padding(spec):
        return -1
    plain = replace(spec, dtype=BFLOAT16) if spec.dtype.is_block_float else spec
    copy = cast(plan, spec, plain) if plain is not spec else 0
    fill_in_place(plan, plain)
    if plain is spec:
        return -1
    slot = cast(plan, plain, spec)
    plan.free(copy)
    return slot


def fill_in_place(plan: PlanWriter, spec: TensorSpec) -> None:
    height, width = (1, 1, *spec.shape)[-2:]
    tile = spec.dtype.tile_bytes(spec.tile)
    masks = [tile] * (bool(height % spec.tile.height) + bool(width % spec.tile.width))
    plan.launch([2 * tile, *masks, 2 * tile])


def to_memory_config(call: Call, plan: PlanWriter) -> Plan:
    """A copy between DRAM and interleaved L1; nothing when the tensor is there already."""
    source = call.inputs[0]
    if call.memory in (None, source.memory) and source.shard is None:
        return plan.finish(-1, source)
    result = result_like(source, call.memory)
    if source.shard is not None:
        return plan.one_program(result, [], at_least="sharded to interleaved")
    if source.layout is TILE:
        return plan.one_program(result, double_buffered_tiles(source))
    return plan.one_program(result, [2 * paging_of(source).page_bytes], at_least="row-major copy")


def _draw_concat(record: OperationRecord, choose: Choose) -> list[Step]:
    first = draws.tensor(choose, integers=True)
    axis = choose.integer(0, len(first["shape"]) - 1)
    others = [_resized(first, axis, choose.one_of((1, 32, 64, 96))) for _ in range(choose.integer(1, 3))]
    return write_call(record.name, [first, *others], axis, memory=draws.wish(choose), as_list=True)


def _draw_concat_anywhere(record: OperationRecord, choose: Choose) -> list[Step]:
    first = draws.tensor(choose)
    rank = len(first["shape"])
    axis = choose.integer(rank - 2, rank - 1)
    return write_call(record.name, [first, _resized(first, axis, choose.one_of(draws.SIZES))], axis, as_list=True)


def _resized(tensor: Step, axis: int, size: int) -> Step:
    shape = list(tensor["shape"])
    shape[axis] = size
    return {**tensor, "shape": shape}


def _draw_slice(record: OperationRecord, choose: Choose, *, grid: int = 32) -> list[Step]:
    """Begins of the last two dimensions on a grid; steps of 1 said or left out."""
    source = draws.tensor(choose, integers=grid > 1)
    shape = source["shape"]
    begins = [choose.integer(0, size - 1) for size in shape]
    begins[-2:] = [begin // grid * grid for begin in begins[-2:]]
    ends = [choose.integer(begin + 1, size) for begin, size in zip(begins, shape, strict=True)]
    steps = [[1] * len(shape)] if choose.integer(0, 1) else []
    return write_call(record.name, [source], begins, ends, *steps, memory=draws.wish(choose))


def _draw_pad(record: OperationRecord, choose: Choose) -> list[Step]:
    source = draws.tensor(choose, most=4)
    padding = [[0, choose.one_of((0, 0, 1, 2))] for _ in source["shape"][:-2]]
    padding += [[0, choose.one_of((0, 1, 10, 32))] for _ in range(2)]
    pairs = [{"tuple": pair} for pair in padding]
    return write_call(record.name, [source], pairs, 0.0, memory=draws.wish(choose))


def _draw_to_memory_config(record: OperationRecord, choose: Choose) -> list[Step]:
    source = draws.tensor(choose, tile_only=True, integers=True)
    return write_call(record.name, [source], {"memory": choose.one_of(draws.MEMORIES)})


RECORDS = (
    record_of(
        write_call("concat", [EXAMPLE_TENSOR] * 2, -1, as_list=True),
        concat,
        _draw_concat,
        Argument("dim", 0),
        draw_bounded=_draw_concat_anywhere,
    ),
    record_of(
        write_call("slice", [EXAMPLE_TENSOR], [0, 0, 32, 0], [1, 1, 64, 64]),
        slice_,
        _draw_slice,
        *(Argument("begins", 0), Argument("ends", 1), Argument("steps", 2, None)),
        draw_bounded=partial(_draw_slice, grid=1),
    ),
    record_of(
        write_call("pad", [EXAMPLE_TENSOR], [{"tuple": [0, size]} for size in (0, 0, 32, 32)], 0.0),
        pad,
        _draw_pad,
        *(Argument("padding", 0), Argument("value", 1, 0.0)),
    ),
    record_of(
        write_call("to_memory_config", [EXAMPLE_TENSOR], {"memory": "L1"}), to_memory_config, _draw_to_memory_config
    ),
)
