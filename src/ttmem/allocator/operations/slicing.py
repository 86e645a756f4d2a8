# SPDX-License-Identifier: Apache-2.0
"""Slice, and split, chunk and unbind, which are slices one after another."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.operations import chosen_shards, draws
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import OWN_KERNELS, double_buffered_tiles, result_like, wanted_like
from ttmem.allocator.operations.movement import copy_between
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter, dimension
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.sharding import to_memory_config
from ttmem.allocator.operations.tilizing import in_layout, tilize, untilize
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.hardware import BFLOAT8_B, DRAM, L1
from ttmem.tensors import TILE, InvalidSpecError, Shard, TensorSpec, paging_of, round_up

_MOST_READ_BYTES = 4096
"""Short rows are read together up to so many bytes."""
_CHUNK_BYTES = 8192
"""Rows that do not fit L1 twice are read in parts of so many bytes."""
_FEW_PARTS = 2
_MOST_PARTS = 64
"""More equal parts than this are cut from parts of so many."""
_BOUNDS = (("begins", "starts", "slice_start"), ("ends", "slice_end"), ("steps", "slice_step"))
"""By the names that the overloads have for them; the first is that of a call without names."""


def _given(call: Call, names: tuple[str, ...]) -> Any:
    return next((call.arguments[name] for name in names if call.arguments.get(name) is not None), None)


def slice_(call: Call, plan: PlanWriter) -> Plan:
    """The full range is the tensor itself, in the memory that is wanted."""
    source, rank = call.inputs[0], len(call.inputs[0].shape)
    if not rank:
        return plan.finish(-1, source)
    begins, ends, steps = ([int(number) for number in _given(call, names) or [1] * rank] for names in _BOUNDS)
    if not len(begins) == len(ends) == len(steps) == rank:
        raise BadInputError(f"begins, ends and steps of a slice need {rank} numbers each")
    begins = [b + size if b < 0 else b for b, size in zip(begins, source.shape, strict=True)]
    ends = [e + size if e < 0 else e for e, size in zip(ends, source.shape, strict=True)]
    for size, begin, end, step in zip(source.shape, begins, ends, steps, strict=True):
        if 0 <= begin == end <= size and step > 0:
            return plan.give_up("slices of nothing")
        if not (0 <= begin < end <= size and step > 0):
            raise BadInputError(f"slice {begin}:{end}:{step} of a dimension of {size}")
    if set(steps) == {1} and not any(begins) and tuple(ends) == source.shape:
        return to_memory_config(call, plan)
    if source.shard is None and call.shard is None:
        slot, result = cut(plan, source, begins, ends, steps, result_like(source, call.memory))
        return plan.finish(slot, result)
    like = _cut_like(call, _sliced_shape(begins, ends, steps))
    if like is None or not _starts_in_tiles(source, begins, steps):
        return plan.give_up(OWN_KERNELS)
    slot, result = cut(plan, source, begins, ends, steps, like)
    return plan.finish(slot, result)


def _starts_in_tiles(source: TensorSpec, begins: Sequence[int], steps: Sequence[int]) -> bool:
    if source.layout is not TILE or len(begins) < 2 or set(steps) != {1}:
        return False
    return begins[-1] % source.tile.width == 0 and begins[-2] % source.tile.height == 0


def _cut_like(call: Call, shape: tuple[int, ...]) -> TensorSpec | None:
    """Where a part of the first input goes: smaller shards of its own where nothing is said. None: nobody knows."""
    source = call.inputs[0]
    if call.memory is not None or source.shard is None:
        return wanted_like(call, source)
    if not isinstance(source.shard, Shard) or len(shape) < 2:
        return None
    shard = chosen_shards.of_slice(source, shape)
    return None if shard is None else replace(source, shard=shard)


def _sliced_shape(begins: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> tuple[int, ...]:
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
    shape = _sliced_shape(begins, ends, steps)
    if source.layout is not TILE:
        result = replace(like, shape=shape)
        return _cut_rows(plan, source, begins, steps, result), result
    strided = set(steps) != {1}
    if _starts_in_tiles(source, begins, steps):
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


def split(call: Call, plan: PlanWriter) -> Plan:
    """Parts of one size, the last one smaller, or of the sizes that are said."""
    source = call.inputs[0]
    axis = dimension(call.arguments["dim"], len(source.shape))
    wanted, size = call.arguments["split_size"], source.shape[axis]
    if isinstance(wanted, (list, tuple)):
        sizes = [int(part) for part in wanted]
        if sum(sizes) != size or min(sizes, default=0) < 1:
            raise BadInputError(f"parts of {sizes} of a dimension of {size}")
    elif int(wanted) < 1:
        raise BadInputError(f"parts of {wanted} of a dimension of {size}")
    else:
        sizes = [min(int(wanted), size - start) for start in range(0, size, int(wanted))]
    if source.shard is not None:
        return plan.give_up("shards are split by kernels of their own")
    fills = call.memory is None and _fills_l1(plan, source, len(sizes))
    like = result_like(source, DRAM if fills else call.memory)
    if _is_split_at_once(plan, source, axis, sizes):
        result = replace(like, shape=(*source.shape[:-1], sizes[0]))
        slots = [plan.allocate(result) for _ in sizes]
        plan.launch(double_buffered_tiles(source))
        return plan.finish_all([(slot, result) for slot in slots])
    if not (source.memory is L1 and like.memory is DRAM and len(sizes) > _FEW_PARTS):
        return plan.finish_all(_parts(plan, source, axis, sizes, like))
    copy = copy_between(plan, source, like)
    parts = _parts(plan, like, axis, sizes, like)
    plan.free(copy)
    return plan.finish_all(parts)


def _is_split_at_once(plan: PlanWriter, source: TensorSpec, axis: int, sizes: list[int]) -> bool:
    """Equal parts of whole tiles along the last dimension are written by one program, if the grid has room for it: a
    column of cores for each matrix, a row for each part.
    """
    rank, number, grid = len(source.shape), len(sizes), plan.memory_map.grid
    if source.layout is not TILE or rank < 2 or axis != rank - 1 or len(set(sizes)) > 1:
        return False
    shape = (1, 1, *source.shape)
    outer, inner = prod(shape[:-3]), shape[-3]
    height, width = (size // 32 for size in shape[-2:])
    has_room = (outer * inner if number == _FEW_PARTS else inner) <= grid.columns and number <= grid.rows
    is_even = source.shape[-1] % 32 == 0 and width % number == 0
    return has_room and is_even and height >= 2 and width >= 2 and (number == _FEW_PARTS or outer == 1)


def _fills_l1(plan: PlanWriter, source: TensorSpec, parts: int) -> bool:
    """By the library's own estimate, which takes the parts for tensors on a single core."""
    if source.memory is not L1 or parts <= _FEW_PARTS:
        return False
    paging = paging_of(source)
    page = source.dtype.tile_bytes() if source.layout is TILE else 1024 * (source.dtype.element_bytes or 0)
    unit = page if source.layout is TILE else source.dtype.element_bytes or 0
    pieces = paging.pages if source.layout is TILE else prod(paging.padded_shape)
    return pieces // parts * unit * parts + 4 * parts * page > plan.l1_space()


def _parts(
    plan: PlanWriter, source: TensorSpec, axis: int, sizes: list[int], like: TensorSpec
) -> list[tuple[int, TensorSpec]]:
    if len(sizes) > _MOST_PARTS and len(set(sizes)) == 1:
        return _parts_of_parts(plan, source, axis, sizes, like)
    made = []
    steps = [1] * len(source.shape)
    begins, ends = [0] * len(source.shape), list(source.shape)
    for size in sizes:
        ends[axis] = begins[axis] + size
        if size != source.shape[axis]:
            made.append(cut(plan, source, begins, ends, steps, like))
        elif like.memory is source.memory:
            made.append((-1, source))
        else:
            made.append((copy_between(plan, source, like), like))
        begins[axis] += size
    return made


def _parts_of_parts(
    plan: PlanWriter, source: TensorSpec, axis: int, sizes: list[int], like: TensorSpec
) -> list[tuple[int, TensorSpec]]:
    groups = [sizes[start : start + _MOST_PARTS] for start in range(0, len(sizes), _MOST_PARTS)]
    made = []
    steps = [1] * len(source.shape)
    begins, ends = [0] * len(source.shape), list(source.shape)
    for group in groups:
        ends[axis] = begins[axis] + sum(group)
        slot, part = cut(plan, source, begins, ends, steps, like)
        made += _parts(plan, part, axis, group, like)
        plan.free(slot)
        begins[axis] = ends[axis]
    return made


def chunk(call: Call, plan: PlanWriter) -> Plan:
    """So many parts, or fewer: their size is rounded up."""
    source = call.inputs[0]
    axis = dimension(call.arguments["dim"], len(source.shape))
    number, size = int(call.arguments["chunks"]), source.shape[axis]
    if number < 1:
        raise BadInputError(f"{number} chunks")
    part = -(-size // number)
    sizes = [min(part, size - start) for start in range(0, size, part)]
    if source.shard is not None:
        return _chunks_of_shards(call, plan, axis, sizes)
    return plan.finish_all(_parts(plan, source, axis, sizes, source))


def _chunks_of_shards(call: Call, plan: PlanWriter, axis: int, sizes: list[int]) -> Plan:
    source, made, begin = call.inputs[0], list[tuple[int, TensorSpec]](), 0
    steps = [1] * len(source.shape)
    for size in sizes:
        begins = [begin if i == axis else 0 for i in range(len(steps))]
        ends = [begin + size if i == axis else full for i, full in enumerate(source.shape)]
        like = _cut_like(call, _sliced_shape(begins, ends, steps))
        if size == source.shape[axis]:
            made.append((-1, source))
        elif like is None or not _starts_in_tiles(source, begins, steps):
            return plan.give_up(OWN_KERNELS)
        else:
            made.append(cut(plan, source, begins, ends, steps, like))
        begin += size
    return plan.finish_all(made)


def _draw_split(record: OperationRecord, choose: Choose) -> list[Step]:
    source = draws.tensor(choose, most=5, integers=True, odd=True)
    if not source["shape"]:
        return _draw_split(record, choose)
    axis = choose.integer(0, len(source["shape"]) - 1)
    size = source["shape"][axis] = choose.one_of((2, 3, 6, 32, 64, 70, 96, 100, 128, 192))
    if record.name == "chunk":
        number = choose.integer(1, 5)
        steps = write_call(record.name, [draws.now_and_then_in_shards(choose, source)], number, axis)
        part = -(-size // number)
        steps[-1]["out"] = [f"result{number}" for number in range(-(-size // part))]
        return steps
    part = choose.one_of([p for p in (1, 2, 16, 32, 50, 64, size) if p <= size and (size // p <= 8 or size == 70)])
    if choose.integer(0, 1) and part < size:
        wanted: int | list[int] = [part, size - part]
        count = 2
    else:
        wanted, count = part, -(-size // part)
    steps = write_call(record.name, [source], wanted, axis, memory=draws.wish(choose))
    steps[-1]["out"] = [f"result{number}" for number in range(count)]
    return steps


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
    if choose.integer(0, 4):
        return write_call(record.name, [source], begins, ends, *steps, memory=memory)
    named: dict[str, Any] = dict(zip(("slice_start", "slice_end", "slice_step"), (begins, ends, *steps), strict=False))
    return write_call(record.name, [source], memory=memory, **named)


RECORDS = (
    record_of(
        write_call("slice", [EXAMPLE_TENSOR], [0, 0, 32, 0], [1, 1, 64, 64]),
        slice_,
        _draw_slice,
        *(Argument(names[0], place, None) for place, names in enumerate(_BOUNDS)),
        *(Argument(name, default=None) for names in _BOUNDS for name in names[1:]),
        is_drawn_odd=True,
        takes_shards=True,
    ),
    record_of(
        write_call("split", [EXAMPLE_TENSOR], 32, -1),
        split,
        _draw_split,
        *(Argument("split_size", 0), Argument("dim", 1, 0)),
        is_drawn_odd=True,
    ),
    record_of(
        write_call("chunk", [EXAMPLE_TENSOR], 2, -1),
        chunk,
        _draw_split,
        *(Argument("chunks", 0), Argument("dim", 1)),
        family="split",
        is_drawn_odd=True,
    ),
)
