# SPDX-License-Identifier: Apache-2.0
"""Elements by their numbers along a dimension: gather and scatter; each element several times: repeat_interleave."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT16, DATA_TYPES, DRAM, FLOAT32, INT32, L1, UINT8, UINT32, Memory
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, record_of, write_call
from ttmem.twin.operations.concat import concat
from ttmem.twin.operations.elementwise import aligned_page, cast, l1_space_with_its_top, result_like, wanted_like
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.permute import transpose
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanWriter, dimension
from ttmem.twin.operations.record import Argument, Step
from ttmem.twin.operations.reduced_shards import filled
from ttmem.twin.operations.slice_ import cut, sliced
from ttmem.twin.operations.tensor_handle import Held, applied, replaced
from ttmem.twin.operations.to_layout import to_layout
from ttmem.twin.placement import place
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import Shard, TensorSpec

_UINT16 = DATA_TYPES.find("uint16")
_WIDEST_ROW_TILES = 60
"""A row of more tiles is gathered by many cores at once."""
_FEW_TILES = 4
_MOST_SHORT_NUMBERS = 65535
_ROW_ALIGNMENT = 32
_LONGEST_NUMBERS = 256
"""Tiles of numbers that are scattered along a dimension have no more of them."""
_WORD = 1 << 32
"""The library's sizes wrap here: where next to nothing of L1 is left a piece of a row has no end."""
_NO_PIECE = "DataflowBufferSpec 'output' has entry_size = 0. entry_size must be set to a non-zero value."
_PAGES_AT_ONCE = 8
_MOST_TOGETHER = 32
"""Copies that are joined at once."""


def _checked(call: Call, *others: TensorSpec) -> int:
    """The dimension; what the library looks at before it does anything."""
    source, numbers = call.inputs[:2]
    rank = len(source.shape)
    axis = dimension(call.arguments["dim"], rank)
    if any(len(spec.shape) != rank for spec in (numbers, *others)):
        raise BadInputError("elements and their numbers have the same rank")
    if any(numbers.shape[d] > source.shape[d] for d in range(rank) if d != axis):
        raise BadInputError(f"numbers of {list(numbers.shape)} for elements of {list(source.shape)}")
    return axis


def gather(call: Call, plan: PlanWriter) -> Plan:
    """With the dimension last: rows of tiles of the elements, of which a tile is filled at a time. Rows in shards that
    lie across are gathered as tiles in pages of L1.
    """
    source, numbers = call.inputs
    axis, rank = _checked(call), len(source.shape)
    if rank < 2 or (rank > 4 and axis != rank - 1):
        return plan.give_up("gather of a single row, or of an outer dimension of many")
    if source.layout is not numbers.layout or numbers.dtype not in (_UINT16, UINT32):
        raise BadInputError("gather takes numbers in the layout of the elements, of uint16 or uint32")
    like = wanted_like(call, source)
    if not source.is_tiled and any(_is_cut_across_odd_rows(spec) for spec in call.inputs):
        return _gathered_as_tiles(plan, call, axis, like)
    in_pages = all(spec.shard is None for spec in (source, numbers, like))
    made = _gathered(plan, Held(-1, source), Held(-2, numbers), axis, like, by_rows=in_pages)
    return plan.finish(made.slot, made.spec)


def _gathered_as_tiles(plan: PlanWriter, call: Call, axis: int, like: TensorSpec) -> Plan:
    tiles = list[Held]()
    for number, spec in enumerate(call.inputs):
        pages = applied(plan, to_memory_config, Held(-1 - number, spec), L1)
        tiles.append(applied(plan, to_layout, pages, None, layout="tile"))
        plan.free(pages.slot)
    made = _gathered(plan, tiles[0], tiles[1], axis, replace(like, memory=L1, shard=None), by_rows=False)
    rows = applied(plan, to_layout, made, None, layout="row_major")
    last = applied(plan, to_memory_config, rows, like.memory, like.shard)
    plan.free(*{rows.slot, made.slot, *(held.slot for held in tiles)} - {last.slot})
    return plan.finish(last.slot, last.spec)


def _gathered(plan: PlanWriter, source: Held, numbers: Held, axis: int, like: TensorSpec, *, by_rows: bool) -> Held:
    """``by_rows``: by the kernel that reads whole rows of bfloat16, where these are in pages from the first."""
    rank = len(source.spec.shape)
    places = _filled(plan, _four(_turned(plan, numbers, axis)), keep=numbers.slot)
    elements = _four(_turned(plan, source, axis))
    whole = part = elements
    wanted = (*places.spec.padded[:3], elements.spec.shape[-1])
    if wanted != elements.spec.shape:
        padded = replace(elements.spec, shape=elements.spec.padded)
        stored = padded if elements.spec.is_tiled else elements.spec
        part = sliced(plan, Held(elements.slot, stored), [0] * 4, wanted, [1] * 4, elements.spec)
    elements = _filled(plan, part, keep=source.slot)
    plan.free(*{whole.slot} - {elements.slot, part.slot, source.slot})
    result = replace(places.spec, dtype=source.spec.dtype, memory=like.memory, shard=like.shard)
    taken = place(result, plan.memory_map).taken_bytes_per_bank if result.memory is L1 else 0
    space = l1_space_with_its_top(plan) - taken
    made = Held(plan.allocate(result), result)
    plan.launch(_gather_buffers(elements.spec, places.spec, space, by_rows=by_rows), CIRCULAR)
    lead = 4 - rank
    shape = _swapped(numbers.spec.shape, axis)
    made = Held(made.slot, replace(result, shape=shape if lead < 0 else result.shape[lead:]))
    if axis != rank - 1:
        turned = applied(plan, transpose, made, numbers.spec.memory, numbers.spec.shard, dim1=axis, dim2=-1)
        made = replaced(plan, made, turned)
    plan.free(*{elements.slot, places.slot} - {source.slot, numbers.slot})
    return made


def _is_cut_across_odd_rows(spec: TensorSpec) -> bool:
    return isinstance(spec.shard, Shard) and spec.shard.kind != "height" and spec.shape[-1] % 32 != 0


def _gather_buffers(elements: TensorSpec, places: TensorSpec, space: int, *, by_rows: bool) -> list[int]:
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
        # Else the row in as few equal parts as L1 has room for.
        room = max((space - number - tile) // tile, 1)
        return [ceil_div(across, ceil_div(across, room)) * tile, number, tile]
    if max(across, found) > _WIDEST_ROW_TILES:
        return [2 * tile, number, tile]
    return [across * tile, number, tile]


def _turned(plan: PlanWriter, held: Held, axis: int) -> Held:
    """With this dimension last."""
    if axis == len(held.spec.shape) - 1:
        return held
    return applied(plan, transpose, held, held.spec.memory, held.spec.shard, dim1=axis, dim2=-1)


def _swapped(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    turned = list(shape)
    turned[axis], turned[-1] = turned[-1], turned[axis]
    return tuple(turned)


def _four(held: Held) -> Held:
    """As four dimensions."""
    shape = held.spec.shape
    outer = 1
    for size in shape[: max(len(shape) - 3, 0)]:
        outer *= size
    return Held(held.slot, replace(held.spec, shape=(outer, *(1, 1, 1, *shape)[-3:])))


def _filled(plan: PlanWriter, held: Held, *, keep: int) -> Held:
    """The padding of tiles holds a value that is never meant."""
    if not held.spec.is_tiled:
        return held
    slot = filled(plan, held.spec).slot
    return held if slot < 0 else replaced(plan, held, Held(slot, held.spec), keep=keep)


def scatter(call: Call, plan: PlanWriter) -> Plan:
    """Rows, with the dimension last; tiles are made rows first and tiles again in the end."""
    source, numbers, values = call.inputs
    axis, rank = _checked(call, values), len(source.shape)
    if any(spec.shard is not None for spec in call.inputs) or rank < 2 or call.arguments["reduce"] is not None:
        return plan.give_up("scatter of shards, of a single row, or with a reduction")
    if rank > 4 and axis != rank - 1:
        return plan.give_up("scatter along an outer dimension of many")
    _check_scatter(call, axis)
    rows = []
    for number, spec in enumerate(call.inputs):
        held = Held(-1 - number, spec)
        if number == 2 and values.shape != numbers.shape:
            like, whole = replace(values, shape=numbers.shape), [0] * rank
            held = Held(*cut(plan, values, whole, numbers.shape, [1] * rank, like))
        if spec.is_tiled:
            held = replaced(plan, held, applied(plan, to_layout, held, None, layout="row_major"))
        rows.append(replaced(plan, held, _turned(plan, held, axis)))
    result = replace(rows[0].spec, memory=call.memory or source.memory)
    made = Held(plan.allocate(result), result)
    specs = tuple(held.spec for held in rows)
    plan.launch_kept(("scatter", *specs, result), lambda: [_scatter_buffers(plan, specs)])
    made = replaced(plan, made, _turned(plan, made, axis))
    if source.is_tiled:
        made = replaced(plan, made, applied(plan, to_layout, made, None, layout="tile"))
    plan.free(*(held.slot for held in reversed(rows)))
    return plan.finish(made.slot, made.spec)


def _scatter_buffers(plan: PlanWriter, rows: Sequence[TensorSpec]) -> list[int]:
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
        raise BadInputError("scatter has a value for every number")
    if source.dtype is not values.dtype or numbers.dtype.is_float:
        raise BadInputError("scatter puts values of the tensor's own type where integers say")


def repeat_interleave(call: Call, plan: PlanWriter) -> Plan:
    """Outer dimensions page by page; tiles along their rows are rows for the time being, joined in DRAM."""
    source, times = call.inputs[0], int(call.arguments["repeats"])
    rank = len(source.shape)
    axis = dimension(call.arguments["dim"], rank)
    if rank < 2 or not 1 <= times <= _MOST_TOGETHER:
        return plan.give_up("repeat_interleave of a single row, or of many times")
    if times == 1:
        return to_memory_config(call, plan)
    if source.shard is not None:
        return _repeated_in_pages(call, plan, times, axis)
    if call.shard is not None:
        return plan.give_up("repeat_interleave out of pages into shards")
    made = _repeated_along(plan, Held(-1, source), times, axis, call.memory or source.memory)
    return plan.finish(made.slot, made.spec)


def _repeated_in_pages(call: Call, plan: PlanWriter, times: int, axis: int) -> Plan:
    """Shards are pages of DRAM for the time being, and the result stays there unless the caller says otherwise."""
    source = call.inputs[0]
    if not source.is_tiled and len(source.shape) == 4 and source.memory is L1:
        return plan.give_up("repeat_interleave of rows in shards that are enlarged like images")
    pages = applied(plan, to_memory_config, Held(-1, source), DRAM)
    made = _repeated_along(plan, pages, times, axis, DRAM)
    end = applied(plan, to_memory_config, made, call.memory or DRAM, call.shard)
    plan.free(*{made.slot, pages.slot} - {end.slot})
    return plan.finish(end.slot, end.spec)


def _repeated_along(plan: PlanWriter, held: Held, times: int, axis: int, memory: Memory) -> Held:
    rank = len(held.spec.shape)
    if axis < rank - 1:
        return _repeated(plan, held, times, axis, result_like(held.spec, memory))
    if held.spec.dtype is UINT8:
        raise NoRuleError("repeat_interleave of bytes in rows")
    turned = applied(plan, transpose, held, memory, dim1=-1, dim2=-2)
    longer = _repeated(plan, turned, times, rank - 2, result_like(held.spec, memory))
    last = applied(plan, transpose, longer, memory, dim1=-1, dim2=-2)
    plan.free(*{longer.slot, turned.slot} - {last.slot, held.slot})
    return last


def _repeated(plan: PlanWriter, held: Held, times: int, axis: int, like: TensorSpec) -> Held:
    source = held.spec
    rank = len(source.shape)
    shape = tuple(size * times if d == axis else size for d, size in enumerate(source.shape))
    result = replace(like, shape=shape)
    plain = source.dtype in (BFLOAT16, FLOAT32, INT32) and rank <= 4
    if plain and held.slot < 0 and (axis < rank - 2 if source.is_tiled else source.shape[-1] > 1):
        page = max(aligned_page(plan, replace(result, memory=one)) for one in (source.memory, result.memory))
        most = _PAGES_AT_ONCE * page
        has_room = most <= plan.l1_space()  # asked before, too: where L1 is full, the library does not begin like this
        slot = plan.allocate(result)
        if has_room and most <= plan.l1_space():
            plan.launch([most], CIRCULAR)
        else:
            plan.estimate("fewer pages at once where L1 is short")
            plan.launch([page], CIRCULAR)
        return Held(slot, result)
    first = held
    rows = held
    if source.dtype.is_block_float or source.dtype is UINT8:
        wider = replace(source, dtype=BFLOAT16, memory=like.memory)
        rows = Held(cast(plan, source, wider), wider)
    if source.is_tiled:
        before = rows
        rows = applied(plan, to_layout, rows, None, layout="row_major")
        if before.slot != first.slot:
            plan.free(before.slot)
    spread = replace(rows.spec, shape=(*source.shape[: axis + 1], 1, *source.shape[axis + 1 :]))
    ((slot, joined),) = concat(Call("", (spread,) * times, {"dim": axis + 1}, DRAM), plan).results
    together = Held(slot, joined)
    made = Held(slot, replace(joined, shape=shape))  # rows stay as they are: nothing is copied
    if source.is_tiled:
        made = applied(plan, to_layout, made, None, layout="tile")
    end = made
    if made.spec.dtype is not source.dtype:
        end = Held(cast(plan, made.spec, result), result)
    elif made.spec.memory is not like.memory:
        end = applied(plan, to_memory_config, made, like.memory)
    for one in (made, rows, together):
        if one.slot not in (end.slot, first.slot):
            plan.free(one.slot)
            if one.slot == together.slot:
                break
    return end


_NUMBERS: Step = {**EXAMPLE_TENSOR, "dtype": "uint32"}


def _example(name: str, tensors: list[Step], *arguments: Any, **options: Any) -> list[Step]:
    """The dimension comes before the numbers."""
    *made, call = write_call(name, tensors)
    return [*made, {**call, "args": [{"tensor": "t0"}, -1, *arguments], "kwargs": options}]


RECORDS = (
    record_of(
        _example("gather", [EXAMPLE_TENSOR, _NUMBERS], index={"tensor": "t1"}),
        gather,
        Argument("dim", 0),
        takes_shards=True,
    ),
    record_of(
        _example("scatter", [EXAMPLE_TENSOR, _NUMBERS, EXAMPLE_TENSOR], {"tensor": "t1"}, {"tensor": "t2"}),
        scatter,
        *(Argument("dim", 0), Argument("reduce", default=None)),
    ),
    record_of(
        write_call("repeat_interleave", [EXAMPLE_TENSOR], 2, 0),
        repeat_interleave,
        *(Argument("repeats", 0), Argument("dim", 1)),
        takes_shards=True,
    ),
)
