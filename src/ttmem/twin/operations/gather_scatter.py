# SPDX-License-Identifier: Apache-2.0
"""Elements by their indices: embedding, gather and scatter; elements repeated along a dimension: repeat_interleave."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT16, DATA_TYPES, DRAM, FLOAT32, INT32, L1, UINT8, UINT32, Memory
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.concat import concat
from ttmem.twin.operations.elementwise import (
    cast,
    compute_aligned_page_bytes,
    measure_l1_space_with_reserved_top,
    result_spec,
    spec_like,
)
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.permute import transpose
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanBuilder, TensorHandle, dimension
from ttmem.twin.operations.record import Argument, Step
from ttmem.twin.operations.reductions import fill_tile_padding
from ttmem.twin.operations.slice_ import cut, slice_tensor
from ttmem.twin.operations.to_layout import change_layout, tilize, to_layout, untilize
from ttmem.twin.placement import compute_paging, place
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import LAYOUTS, ROW_MAJOR, TILE, InvalidSpecError, Shard, TensorSpec

_NUMBERS_AT_ONCE = 8
_WIDEST_KNOWN_TILES = 32
"""Wider tiles are written in parts of a row whose size is not known."""


def embedding(call: Call, plan: PlanBuilder) -> Plan:
    """Plan embedding: one row of the table per index, in the table's layout unless another is wanted."""
    numbers, table = call.inputs
    if any(spec.shard is not None for spec in call.inputs) or numbers.is_tiled:
        return plan.unknown("an embedding of shards, or of tiled indices")
    wanted = call.arguments.get("layout")
    layout = table.layout if wanted is None else LAYOUTS.find(str(wanted).removeprefix("ttnn."))
    shape = (
        (*numbers.shape[:1], numbers.shape[-1], table.shape[-1])
        if len(numbers.shape) > 1
        else (*numbers.shape, table.shape[-1])
    )
    rows, made = change_layout(table, tiled=False), 0
    if table.is_tiled:
        made = untilize(plan, table, rows)
    if rows.dtype is not BFLOAT16:
        raise InvalidSpecError("Weights tensor must have BFLOAT16 dtype")
    result = TensorSpec(shape, BFLOAT16, layout, call.memory or numbers.memory)
    if layout is TILE and not shape[-1] % 32 and not shape[-2] % 32:
        return _embed_as_tiles(plan, result, made)
    flat = replace(result, layout=ROW_MAJOR)
    slot = plan.allocate(flat)
    alignment = plan.memory_map.page_alignment_bytes(numbers.memory)
    depth = 2 if prod(shape[:-1]) > plan.memory_map.grid.cores else 1
    plan.launch([depth * round_up(compute_paging(flat).page_bytes, alignment), _NUMBERS_AT_ONCE * alignment])
    if layout is TILE:
        tiles = tilize(plan, flat, result)
        plan.free(slot)
        slot = tiles
    plan.free(made)
    return plan.finish(slot, result)


def _embed_as_tiles(plan: PlanBuilder, result: TensorSpec, made: int) -> Plan:
    """Write whole tiles with the same program: two rows of tiles in, two out, and 32 indices."""
    slot = plan.allocate(result)
    across, tile = result.shape[-1] // 32, BFLOAT16.tile_bytes()
    numbers = 32 * UINT32.tile_bytes() // 1024
    if across <= _WIDEST_KNOWN_TILES:
        plan.launch([2 * across * tile, 2 * across * tile, numbers])
    else:
        plan.estimate("wide rows are tilized in parts")
        plan.launch([4 * tile + numbers])
    plan.free(made)
    return plan.finish(slot, result)


_UINT16 = DATA_TYPES.find("uint16")
_WIDEST_ROW_TILES = 60
"""Wider rows are gathered by many cores together."""
_FEW_TILES = 4
_MOST_SHORT_NUMBERS = 65535
_ROW_ALIGNMENT = 32
_LONGEST_NUMBERS = 256
"""The longest dimension of integer tiles that scatter accepts."""
_WORD = 1 << 32
"""The library's sizes wrap here: with almost no free L1 the piece of a row has no limit."""
_NO_PIECE = "DataflowBufferSpec 'output' has entry_size = 0. entry_size must be set to a non-zero value."
_PAGES_AT_ONCE = 8
_MOST_TOGETHER = 32
"""The largest number of copies that are concatenated together."""


def _check_call(call: Call, *others: TensorSpec) -> int:
    """Return the dimension after the library's first checks."""
    source, numbers = call.inputs[:2]
    rank = len(source.shape)
    axis = dimension(call.arguments["dim"], rank)
    if any(len(spec.shape) != rank for spec in (numbers, *others)):
        raise BadInputError("input and index must have the same rank")
    if any(numbers.shape[d] > source.shape[d] for d in range(rank) if d != axis):
        raise BadInputError(f"an index of shape {list(numbers.shape)} for an input of shape {list(source.shape)}")
    return axis


def gather(call: Call, plan: PlanBuilder) -> Plan:
    """Plan gather with the dimension last; row-major shards without whole rows become interleaved tiles in L1."""
    source, numbers = call.inputs
    axis, rank = _check_call(call), len(source.shape)
    if rank < 2 or (rank > 4 and axis != rank - 1):
        return plan.unknown("gather of a single row, or along an outer dimension of rank 5 or more")
    if source.layout is not numbers.layout or numbers.dtype not in (_UINT16, UINT32):
        raise BadInputError("the index of gather must be uint16 or uint32, in the layout of the input")
    like = result_spec(call, source)
    if not source.is_tiled and any(_has_unaligned_row_shards(spec) for spec in call.inputs):
        return _gather_as_tiles(plan, call, axis, like)
    in_pages = all(spec.shard is None for spec in (source, numbers, like))
    made = _gather(plan, TensorHandle(-1, source), TensorHandle(-2, numbers), axis, like, by_rows=in_pages)
    return plan.finish(made.slot, made.spec)


def _gather_as_tiles(plan: PlanBuilder, call: Call, axis: int, like: TensorSpec) -> Plan:
    tiles = list[TensorHandle]()
    for number, spec in enumerate(call.inputs):
        pages = plan.apply(to_memory_config, TensorHandle(-1 - number, spec), L1)
        tiles.append(plan.apply(to_layout, pages, None, layout="tile"))
        plan.free(pages.slot)
    made = _gather(plan, tiles[0], tiles[1], axis, replace(like, memory=L1, shard=None), by_rows=False)
    rows = plan.apply(to_layout, made, None, layout="row_major")
    last = plan.apply(to_memory_config, rows, like.memory, like.shard)
    plan.free(*{rows.slot, made.slot, *(held.slot for held in tiles)} - {last.slot})
    return plan.finish(last.slot, last.spec)


def _gather(
    plan: PlanBuilder, source: TensorHandle, numbers: TensorHandle, axis: int, like: TensorSpec, *, by_rows: bool
) -> TensorHandle:
    """Add gather; ``by_rows``: the kernel that reads whole rows of bfloat16 if all tensors are interleaved."""
    rank = len(source.spec.shape)
    places = _fill_padding(plan, _reshape_to_rank_4(_transpose_to_last(plan, numbers, axis)), keep=numbers.slot)
    elements = _reshape_to_rank_4(_transpose_to_last(plan, source, axis))
    whole = part = elements
    wanted = (*places.spec.padded[:3], elements.spec.shape[-1])
    if wanted != elements.spec.shape:
        padded = replace(elements.spec, shape=elements.spec.padded)
        stored = padded if elements.spec.is_tiled else elements.spec
        part = slice_tensor(plan, TensorHandle(elements.slot, stored), [0] * 4, wanted, [1] * 4, elements.spec)
    elements = _fill_padding(plan, part, keep=source.slot)
    plan.free(*{whole.slot} - {elements.slot, part.slot, source.slot})
    result = replace(places.spec, dtype=source.spec.dtype, memory=like.memory, shard=like.shard)
    taken = place(result, plan.memory_map).taken_bytes_per_bank if result.memory is L1 else 0
    space = measure_l1_space_with_reserved_top(plan) - taken
    made = TensorHandle(plan.allocate(result), result)
    plan.launch(_list_gather_buffers(elements.spec, places.spec, space, by_rows=by_rows), CIRCULAR)
    lead = 4 - rank
    shape = _swap_with_last(numbers.spec.shape, axis)
    made = TensorHandle(made.slot, replace(result, shape=shape if lead < 0 else result.shape[lead:]))
    if axis != rank - 1:
        turned = plan.apply(transpose, made, numbers.spec.memory, numbers.spec.shard, dim1=axis, dim2=-1)
        made = plan.replace_tensor(made, turned)
    plan.free(*{elements.slot, places.slot} - {source.slot, numbers.slot})
    return made


def _has_unaligned_row_shards(spec: TensorSpec) -> bool:
    return isinstance(spec.shard, Shard) and spec.shard.kind != "height" and spec.shape[-1] % 32 != 0


def _list_gather_buffers(elements: TensorSpec, places: TensorSpec, space: int, *, by_rows: bool) -> list[int]:
    if not elements.is_tiled:
        across, found = (spec.padded[-1] for spec in (elements, places))
        element, number = (spec.element_bytes for spec in (elements, places))
        return [across * element, found * number, found * element]
    tile, number = elements.tile_bytes, places.tile_bytes
    across, found = (spec.tiles_across for spec in (elements, places))
    can_be_told = places.dtype is UINT32 or elements.shape[-1] <= _MOST_SHORT_NUMBERS
    if by_rows and elements.dtype is BFLOAT16 and can_be_told:
        rows = [across * tile, number, max(found, _FEW_TILES) * tile]
        if sum(rows) <= space:
            return rows
        # Otherwise the row is split into as few equal parts as fit L1.
        room = max((space - number - tile) // tile, 1)
        return [ceil_div(across, ceil_div(across, room)) * tile, number, tile]
    if max(across, found) > _WIDEST_ROW_TILES:
        return [2 * tile, number, tile]
    return [across * tile, number, tile]


def _transpose_to_last(plan: PlanBuilder, held: TensorHandle, axis: int) -> TensorHandle:
    """Move the dimension to the end."""
    if axis == len(held.spec.shape) - 1:
        return held
    return plan.apply(transpose, held, held.spec.memory, held.spec.shard, dim1=axis, dim2=-1)


def _swap_with_last(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    turned = list(shape)
    turned[axis], turned[-1] = turned[-1], turned[axis]
    return tuple(turned)


def _reshape_to_rank_4(held: TensorHandle) -> TensorHandle:
    """Return the tensor with four dimensions."""
    shape = held.spec.shape
    outer = 1
    for size in shape[: max(len(shape) - 3, 0)]:
        outer *= size
    return TensorHandle(held.slot, replace(held.spec, shape=(outer, *(1, 1, 1, *shape)[-3:])))


def _fill_padding(plan: PlanBuilder, held: TensorHandle, *, keep: int) -> TensorHandle:
    """Fill the padding of tiles with a neutral value."""
    if not held.spec.is_tiled:
        return held
    slot = fill_tile_padding(plan, held.spec).slot
    return held if slot < 0 else plan.replace_tensor(held, TensorHandle(slot, held.spec), keep=keep)


def scatter(call: Call, plan: PlanBuilder) -> Plan:
    """Plan scatter of rows with the dimension last; tiles are untilized first and tilized at the end."""
    source, numbers, values = call.inputs
    axis, rank = _check_call(call, values), len(source.shape)
    if any(spec.shard is not None for spec in call.inputs) or rank < 2 or call.arguments["reduce"] is not None:
        return plan.unknown("scatter of shards, of a single row, or with a reduction")
    if rank > 4 and axis != rank - 1:
        return plan.unknown("scatter along an outer dimension of rank 5 or more")
    _check_scatter(call, axis)
    rows = []
    for number, spec in enumerate(call.inputs):
        held = TensorHandle(-1 - number, spec)
        if number == 2 and values.shape != numbers.shape:
            like, whole = replace(values, shape=numbers.shape), [0] * rank
            held = TensorHandle(*cut(plan, values, whole, numbers.shape, [1] * rank, like))
        if spec.is_tiled:
            held = plan.advance(to_layout, held, None, layout="row_major")
        rows.append(plan.replace_tensor(held, _transpose_to_last(plan, held, axis)))
    result = replace(rows[0].spec, memory=call.memory or source.memory)
    made = TensorHandle(plan.allocate(result), result)
    specs = tuple(held.spec for held in rows)
    plan.launch_kept(("scatter", *specs, result), lambda: [_list_scatter_buffers(plan, specs)])
    made = plan.replace_tensor(made, _transpose_to_last(plan, made, axis))
    if source.is_tiled:
        made = plan.advance(to_layout, made, None, layout="tile")
    plan.free(*(held.slot for held in reversed(rows)))
    return plan.finish(made.slot, made.spec)


def _list_scatter_buffers(plan: PlanBuilder, rows: Sequence[TensorSpec]) -> list[int]:
    longest = round_up((plan.l1_space() // 16 * 9 // 10 - 32) % _WORD, _ROW_ALIGNMENT) % _WORD
    if not longest:
        plan.refuse(_NO_PIECE)
    pieces = [round_up(min(spec.shape[-1], longest) * spec.element_bytes, _ROW_ALIGNMENT) for spec in rows]
    return [pieces[0], *pieces]


def _check_scatter(call: Call, axis: int) -> None:
    source, numbers, values = call.inputs
    if any(spec.dtype is FLOAT32 and spec.is_tiled for spec in (source, values)):
        raise BadInputError("scatter does not take tiles of float32")
    for spec in call.inputs:
        if spec.dtype in (INT32, UINT32) and spec.is_tiled and spec.shape[axis] > _LONGEST_NUMBERS:
            raise BadInputError(f"scatter takes tiles of no more than {_LONGEST_NUMBERS} integers along a dimension")
    if any(number > size for number, size in zip(numbers.shape, values.shape, strict=True)):
        raise BadInputError("scatter needs a value for each index")
    if source.dtype is not values.dtype or numbers.dtype.is_float:
        raise BadInputError("scatter takes values of the input's type and integer indices")


def repeat_interleave(call: Call, plan: PlanBuilder) -> Plan:
    """Plan repeat_interleave: outer dimensions page by page; along rows, tiles are untilized and joined in DRAM."""
    source, times = call.inputs[0], int(call.arguments["repeats"])
    rank = len(source.shape)
    axis = dimension(call.arguments["dim"], rank)
    if rank < 2 or not 1 <= times <= _MOST_TOGETHER:
        return plan.unknown("repeat_interleave of a single row, or of many times")
    if times == 1:
        return to_memory_config(call, plan)
    if source.shard is not None:
        return _repeat_shards(call, plan, times, axis)
    if call.shard is not None:
        return plan.unknown("repeat_interleave of an interleaved tensor into shards")
    made = _repeat_along(plan, TensorHandle(-1, source), times, axis, call.memory or source.memory)
    return plan.finish(made.slot, made.spec)


def _repeat_shards(call: Call, plan: PlanBuilder, times: int, axis: int) -> Plan:
    """Repeat shards as interleaved in DRAM, where the result stays by default."""
    source = call.inputs[0]
    if not source.is_tiled and len(source.shape) == 4 and source.memory is L1:
        return plan.unknown("repeat_interleave of row-major shards of rank 4")
    pages = plan.apply(to_memory_config, TensorHandle(-1, source), DRAM)
    made = _repeat_along(plan, pages, times, axis, DRAM)
    end = plan.apply(to_memory_config, made, call.memory or DRAM, call.shard)
    plan.free(*{made.slot, pages.slot} - {end.slot})
    return plan.finish(end.slot, end.spec)


def _repeat_along(plan: PlanBuilder, held: TensorHandle, times: int, axis: int, memory: Memory) -> TensorHandle:
    rank = len(held.spec.shape)
    if axis < rank - 1:
        return _repeat(plan, held, times, axis, spec_like(held.spec, memory))
    if held.spec.dtype is UINT8:
        raise NoRuleError("repeat_interleave of row-major uint8")
    turned = plan.apply(transpose, held, memory, dim1=-1, dim2=-2)
    longer = _repeat(plan, turned, times, rank - 2, spec_like(held.spec, memory))
    last = plan.apply(transpose, longer, memory, dim1=-1, dim2=-2)
    plan.free(*{longer.slot, turned.slot} - {last.slot, held.slot})
    return last


def _repeat(plan: PlanBuilder, held: TensorHandle, times: int, axis: int, like: TensorSpec) -> TensorHandle:
    source = held.spec
    rank = len(source.shape)
    shape = tuple(size * times if d == axis else size for d, size in enumerate(source.shape))
    result = replace(like, shape=shape)
    plain = source.dtype in (BFLOAT16, FLOAT32, INT32) and rank <= 4
    if plain and held.slot < 0 and (axis < rank - 2 if source.is_tiled else source.shape[-1] > 1):
        page = max(
            compute_aligned_page_bytes(plan, replace(result, memory=one)) for one in (source.memory, result.memory)
        )
        most = _PAGES_AT_ONCE * page
        has_room = (
            most <= plan.l1_space()
        )  # checked before the allocation too: with a full L1 the library takes another path
        slot = plan.allocate(result)
        if has_room and most <= plan.l1_space():
            plan.launch([most], CIRCULAR)
        else:
            plan.estimate("fewer pages at once where L1 is short")
            plan.launch([page], CIRCULAR)
        return TensorHandle(slot, result)
    first = held
    rows = held
    if source.dtype.is_block_float or source.dtype is UINT8:
        wider = replace(source, dtype=BFLOAT16, memory=like.memory)
        rows = TensorHandle(cast(plan, source, wider), wider)
    if source.is_tiled:
        before = rows
        rows = plan.apply(to_layout, rows, None, layout="row_major")
        if before.slot != first.slot:
            plan.free(before.slot)
    spread = replace(rows.spec, shape=(*source.shape[: axis + 1], 1, *source.shape[axis + 1 :]))
    ((slot, joined),) = concat(Call("", (spread,) * times, {"dim": axis + 1}, DRAM), plan).results
    together = TensorHandle(slot, joined)
    made = TensorHandle(slot, replace(joined, shape=shape))  # rows stay as they are: nothing is copied
    if source.is_tiled:
        made = plan.apply(to_layout, made, None, layout="tile")
    end = made
    if made.spec.dtype is not source.dtype:
        end = TensorHandle(cast(plan, made.spec, result), result)
    elif made.spec.memory is not like.memory:
        end = plan.apply(to_memory_config, made, like.memory)
    for one in (made, rows, together):
        if one.slot not in (end.slot, first.slot):
            plan.free(one.slot)
            if one.slot == together.slot:
                break
    return end


_NUMBERS: Step = {**EXAMPLE_TENSOR, "dtype": "uint32"}


def _example(name: str, tensors: list[Step], *arguments: Any, **options: Any) -> list[Step]:
    """Return the steps of a call with the dimension before the indices."""
    *made, call = format_call(name, tensors)
    return [*made, {**call, "args": [{"tensor": "t0"}, -1, *arguments], "kwargs": options}]


RECORDS = (
    build_record(
        format_call(
            "embedding",
            [
                {"shape": [1, 32], "dtype": "uint32", "layout": "row_major", "memory": "DRAM"},
                {"shape": [64, 64], "dtype": "bfloat16", "layout": "row_major", "memory": "DRAM"},
            ],
        ),
        embedding,
        Argument("layout", default=None),
        verified_low_rank_and_rare_types=True,
        verified_with_shards=False,
    ),
    build_record(_example("gather", [EXAMPLE_TENSOR, _NUMBERS], index={"tensor": "t1"}), gather, Argument("dim", 0)),
    build_record(
        _example("scatter", [EXAMPLE_TENSOR, _NUMBERS, EXAMPLE_TENSOR], {"tensor": "t1"}, {"tensor": "t2"}),
        scatter,
        *(Argument("dim", 0), Argument("reduce", default=None)),
        verified_with_shards=False,
    ),
    build_record(
        format_call("repeat_interleave", [EXAMPLE_TENSOR], 2, 0),
        repeat_interleave,
        *(Argument("repeats", 0), Argument("dim", 1)),
    ),
)
