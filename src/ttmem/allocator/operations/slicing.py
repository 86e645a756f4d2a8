# SPDX-License-Identifier: Apache-2.0
"""Slice."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ttmem._errors import BadInputError
from ttmem.allocator.operations import chosen_shards, draws
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import OWN_KERNELS, double_buffered_tiles, result_like, wanted_like
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.sharding import to_memory_config
from ttmem.allocator.operations.tilizing import in_layout, tilize, untilize
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.hardware import BFLOAT8_B
from ttmem.tensors import TILE, InvalidSpecError, Shard, TensorSpec, paging_of, round_up

_MOST_READ_BYTES = 4096
"""Short rows are read together up to so many bytes."""
_CHUNK_BYTES = 8192
"""Rows that do not fit L1 twice are read in parts of so many bytes."""


def slice_(call: Call, plan: PlanWriter) -> Plan:
    """The full range is the tensor itself, in the memory that is wanted."""
    source, rank = call.inputs[0], len(call.inputs[0].shape)
    if not rank:
        return plan.finish(-1, source)
    begins = [int(b) for b in call.arguments["begins"]]
    ends = [int(e) for e in call.arguments["ends"]]
    steps = [int(s) for s in call.arguments["steps"] or [1] * rank]
    if not len(begins) == len(ends) == len(steps) == rank:
        raise BadInputError(f"begins, ends and steps of a slice need {rank} numbers each")
    begins = [b + size if b < 0 else b for b, size in zip(begins, source.shape, strict=True)]
    ends = [e + size if e < 0 else e for e, size in zip(ends, source.shape, strict=True)]
    for size, begin, end, step in zip(source.shape, begins, ends, steps, strict=True):
        if not (0 <= begin < end <= size and step > 0):
            raise BadInputError(f"slice {begin}:{end}:{step} of a dimension of {size}")
    if set(steps) == {1} and not any(begins) and tuple(ends) == source.shape:
        return to_memory_config(call, plan)
    if source.shard is None and call.shard is None:
        slot, result = cut(plan, source, begins, ends, steps, result_like(source, call.memory))
        return plan.finish(slot, result)
    like = cut_like(call, sliced_shape(begins, ends, steps))
    if like is None or not starts_in_tiles(source, begins, steps):
        return plan.give_up(OWN_KERNELS)
    slot, result = cut(plan, source, begins, ends, steps, like)
    return plan.finish(slot, result)


def starts_in_tiles(source: TensorSpec, begins: Sequence[int], steps: Sequence[int]) -> bool:
    if source.layout is not TILE or len(begins) < 2 or set(steps) != {1}:
        return False
    return begins[-1] % source.tile.width == 0 and begins[-2] % source.tile.height == 0


def cut_like(call: Call, shape: tuple[int, ...]) -> TensorSpec | None:
    """Where a part of the first input goes: smaller shards of its own where nothing is said. None: nobody knows."""
    source = call.inputs[0]
    if call.memory is not None or source.shard is None:
        return wanted_like(call, source)
    if not isinstance(source.shard, Shard) or len(shape) < 2:
        return None
    shard = chosen_shards.of_slice(source, shape)
    return None if shard is None else replace(source, shard=shard)


def sliced_shape(begins: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> tuple[int, ...]:
    return tuple(-(-(e - b) // s) for b, e, s in zip(begins, ends, steps, strict=True))


def cut(
    plan: PlanWriter,
    source: TensorSpec,
    begins: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
    like: TensorSpec,
) -> tuple[int, TensorSpec]:
    """A part of a tensor, in the memory of ``like``.

    A part that starts on a tile boundary copies tiles, be they in shards or not. Any other, of an interleaved tensor,
    is cut from rows, of which there is a copy in the result's memory first; block floats come back as bfloat16.
    """
    rank = len(source.shape)
    shape = sliced_shape(begins, ends, steps)
    if source.layout is not TILE:
        result = replace(like, shape=shape)
        return _cut_rows(plan, source, begins, steps, result), result
    strided = set(steps) != {1}
    if starts_in_tiles(source, begins, steps):
        result = replace(like, shape=shape)
        slot = plan.allocate(result)
        plan.launch([*double_buffered_tiles(source), 4 * rank])
        return slot, result
    if strided and source.dtype is BFLOAT8_B:
        raise InvalidSpecError("Strided slice is not supported for BFLOAT8 tensors")
    all_rows = in_layout(replace(like, shape=source.shape), tiled=False)
    rows = untilize(plan, source, all_rows)
    some_rows = replace(all_rows, shape=shape)
    some = _cut_rows(plan, all_rows, begins, steps, some_rows)
    result = replace(some_rows, layout=TILE)
    slot = tilize(plan, some_rows, result)
    plan.free(some, rows)
    return slot, result


def _cut_rows(
    plan: PlanWriter, source: TensorSpec, begins: Sequence[int], steps: Sequence[int], result: TensorSpec
) -> int:
    slot = plan.allocate(result)
    alignments = [plan.memory_map.page_alignment_bytes(spec.memory) for spec in (source, result)]
    alignment = max(alignments)
    if set(steps) != {1}:
        plan.launch([2 * round_up(paging_of(source).page_bytes, alignment)])
        return slot
    key = "slice", source, result, tuple(begins)
    plan.launch_kept(key, lambda: [row_buffers(plan, source, begins, result, alignments)])
    return slot


def row_buffers(
    plan: PlanWriter, source: TensorSpec, begins: Sequence[int], result: TensorSpec, alignments: Sequence[int]
) -> list[int]:
    """Many rows at once; where L1 has no room for two, pieces of them."""
    alignment = max(alignments)
    row = paging_of(result).page_bytes
    is_shifted = begins[-1] * (source.dtype.element_bytes or 0) % alignments[0] != 0
    unit = alignment * (2 if is_shifted else 1)
    stick, space = round_up(row, unit), plan.l1_space()
    indices = 4 * len(result.shape)
    if not is_shifted and 2 * stick > space and stick > unit:
        chunk = min(_CHUNK_BYTES, space // 8) // unit * unit
        if not chunk:
            plan.refuse(f"ttnn::slice: L1 budget {space} B too small for sub-row chunking (alignment {unit} B)")
        return [4 * chunk, indices]
    if 2 * stick > space:
        shift = begins[-1] * (source.dtype.element_bytes or 0) % alignments[0]
        plan.refuse(
            f"ttnn::slice: required DFB size {2 * stick} B exceeds per-core L1 budget {space} B "
            f"(row_bytes={row}, misalignment={shift}); consider slicing along a non-width dim"
        )
    rows_per_core = round_up(-(-prod(result.shape[:-1]) // plan.memory_map.grid.cores), 32)
    at_once = _MOST_READ_BYTES // round_up(row, alignment)
    together = max((j for j in range(1, min(at_once, rows_per_core) + 1) if rows_per_core % j == 0), default=1)
    return [2 * together * stick, indices]


def _draw_slice(record: OperationRecord, choose: Choose) -> list[Step]:
    """Begins of the last two dimensions mostly on the tile grid; steps of 1 said, left out, or larger ones."""
    source = draws.tensor(choose, integers=True, odd=True)
    shape = source["shape"]
    if not choose.integer(0, 3) and len(shape) > 1:
        shape[-1] *= choose.one_of((4, 40))
    begins = [choose.integer(0, size - 1) if choose.integer(0, 1) else 0 for size in shape]
    if choose.integer(0, 1):
        begins[-2:] = [begin // 32 * 32 for begin in begins[-2:]]
    ends = [
        choose.integer(begin + 1, size) if choose.integer(0, 1) else size
        for begin, size in zip(begins, shape, strict=True)
    ]
    steps = [[[1] * len(shape)], [], [[choose.one_of((1, 1, 2, 3)) for _ in shape]]][choose.integer(0, 2)]
    if choose.integer(0, 1):
        source, memory = draws.out_of_shards(choose, source)
    else:
        source, memory = draws.now_and_then_in_shards(choose, source), None
    return write_call(record.name, [source], begins, ends, *steps, memory=memory)


RECORDS = (
    record_of(
        write_call("slice", [EXAMPLE_TENSOR], [0, 0, 32, 0], [1, 1, 64, 64]),
        slice_,
        _draw_slice,
        *(Argument("begins", 0), Argument("ends", 1), Argument("steps", 2, None)),
        is_drawn_odd=True,
        takes_shards=True,
    ),
)
