# SPDX-License-Identifier: Apache-2.0
"""Where the greatest elements are: argmax and topk."""

from dataclasses import replace
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.operations import draws
from ttmem.allocator.operations.chaining import Held, applied, replaced
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import spell_type
from ttmem.allocator.operations.movement import fill_padding, pad
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter, dimension
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.reshaping import reshape
from ttmem.allocator.operations.slicing import slice_
from ttmem.allocator.operations.tilizing import to_layout
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.allocator.programs import CIRCULAR, end_of_stack
from ttmem.hardware import BFLOAT16, BLACKHOLE, DATA_TYPES, FLOAT32, UINT32, Memory
from ttmem.tensors import ROW_MAJOR, TILE, TensorSpec, paging_of, round_up

_UINT16 = DATA_TYPES.find("uint16")
_ROW_ALIGNMENT = 32
_SHORTEST_ROW = 64
"""Rows that are searched for their greatest elements are padded to this."""
_MOST_SHORT_INDICES = 65535
_MANY_CORES_WIDTH = 512
_MANY_CORES_MOST = 64
"""From that width on, up to so many elements are looked for by many cores at once."""
_LONG_ON_BLACKHOLE = 4096


def argmax(call: Call, plan: PlanWriter) -> Plan:
    """Indices as rows. One core walks tiles, many cores share rows; outer dimensions go through the registers."""
    source, rank = call.inputs[0], len(call.inputs[0].shape)
    dim, keeps = call.arguments["dim"], bool(call.arguments["keepdim"])
    if source.shard is not None:
        return plan.give_up("argmax of shards")
    if not rank:
        return plan.give_up("argmax of a single number")
    axis = rank - 1 if dim is None else dimension(dim, rank)
    shape = [1 if dim is None or place == axis else size for place, size in enumerate(source.shape)]
    memory = call.memory or source.memory
    are_floats = source.dtype in (BFLOAT16, FLOAT32)
    if axis < rank - 2 and are_floats:
        return _through_registers(call, plan, axis, tuple(shape))
    kept = shape if keeps else [] if dim is None else [*shape[:axis], *shape[axis + 1 :]]
    result = TensorSpec(tuple(kept), UINT32, ROW_MAJOR, memory)
    held = Held(-1, source)
    if source.layout is ROW_MAJOR and axis < rank - 1:
        if not are_floats:
            return plan.give_up("argmax of integers along other dimensions than the last")
        held = applied(plan, to_layout, held, None, layout="tile")
    slot = plan.allocate(result)
    if source.layout is TILE and not are_floats:
        dtype = spell_type(source.dtype)
        plan.refuse(f"Only BFLOAT16, FLOAT32 are supported for inputs with TILE layout, got {dtype}")
    if source.layout is TILE and dim is None:
        plan.refuse("For inputs with TILE layout, dim parameter must be specified!")
    if held.spec.layout is TILE:
        plan.launch([held.spec.dtype.tile_bytes(), paging_of(result).page_bytes])
    else:
        _launch_shared_rows(plan, source, 1 if keeps or dim is None else source.shape[-2])
    plan.free(held.slot)
    return plan.finish(slot, result)


def _through_registers(call: Call, plan: PlanWriter, axis: int, shape: tuple[int, ...]) -> Plan:
    first = held = Held(-1, call.inputs[0])
    if held.spec.layout is ROW_MAJOR:
        held = first = applied(plan, to_layout, held, None, layout="tile")
    found = TensorSpec(shape, UINT32, TILE, call.memory or call.inputs[0].memory)
    slot = plan.allocate(found)
    plan.launch([2 * held.spec.dtype.tile_bytes(), 2 * UINT32.tile_bytes()], CIRCULAR)
    held = Held(slot, found)
    held = replaced(plan, held, applied(plan, to_layout, held, None, layout="row_major"))
    if not call.arguments["keepdim"]:
        held = applied(plan, reshape, held, shape=(*shape[:axis], *shape[axis + 1 :]))
    plan.free(first.slot)
    return plan.finish(held.slot, held.spec)


def _launch_shared_rows(plan: PlanWriter, source: TensorSpec, results: int) -> None:
    """Every core reads its part of a row; the first core gathers what all of them found."""
    element = source.dtype.element_bytes or 0
    least = plan.memory_map.page_alignment_bytes(source.memory) // 2
    parts = -(-source.shape[-1] // least)
    cores = min(parts, plan.memory_map.grid.cores)
    indices, values = (round_up(results * size, _ROW_ALIGNMENT) for size in (4, element))

    def read(parts_of_a_core: int) -> int:
        return round_up(parts_of_a_core * least * element, _ROW_ALIGNMENT)

    if results == 1:
        plan.launch([read(-(-parts // cores)), indices, indices * cores, values * cores])
        return
    # Several results of a core travel together, by fewer cores, which read ahead: how many is not known.
    most = end_of_stack([2 * read(parts), indices, indices * cores, values * cores], plan.memory_map)
    why = "several rows of an argmax at once"
    smallest = [read(-(-parts // cores)), indices, indices, values]
    plan.launch(smallest, at_least=why, at_most_bytes=most - plan.memory_map.l1_base_address)


def topk(call: Call, plan: PlanWriter) -> Plan:
    """Values and indices of rows, found by one core a row of tiles at a time, then cut to what was asked for."""
    source, rank = call.inputs[0], len(call.inputs[0].shape)
    wanted = int(call.arguments["k"])
    if source.layout is not TILE or source.shard is not None or rank > 4:
        return plan.give_up("topk of row-major or sharded tensors, or of more than four dimensions")
    axis = dimension(call.arguments["dim"], rank)
    if not 0 < wanted <= source.shape[axis]:
        raise BadInputError(f"K cannot be larger than the dimension size! K={wanted}")
    if axis != rank - 1 or source.dtype is not BFLOAT16:
        return plan.give_up("topk of other dimensions than the last, or of other types than bfloat16")
    width, tiles = source.shape[-1], -(-wanted // 32)
    padded = round_up(width, 32)
    if padded >= _MANY_CORES_WIDTH and padded & (padded - 1) == 0 and tiles * 32 <= _MANY_CORES_MOST:
        return plan.give_up("topk of long rows by many cores")
    if plan.memory_map.architecture is BLACKHOLE and (wanted > _MANY_CORES_MOST or padded >= _LONG_ON_BLACKHOLE):
        return plan.give_up("topk of long rows, or of many elements, on Blackhole")
    memory = call.memory or source.memory
    held = Held(-1, source)
    if width < _SHORTEST_ROW:
        padding = [(0, 0)] * 3 + [(0, _SHORTEST_ROW - width)]
        four = Held(-1, replace(source, shape=(1,) * (4 - rank) + source.shape))
        held = applied(plan, pad, four, None, padding=padding)
    filled = fill_padding(plan, held.spec)
    before, place = held, Held(held.slot if filled < 0 else filled, held.spec)
    held = replaced(plan, before, place)
    indices = _UINT16 if max(padded, _SHORTEST_ROW) < _MOST_SHORT_INDICES else UINT32
    made = []
    for dtype in (source.dtype, indices):
        spec = replace(source, shape=(*source.shape[:-1], tiles * 32), dtype=dtype, memory=memory)
        made.append(Held(plan.allocate(spec), spec))
    value, index = source.dtype.tile_bytes(), indices.tile_bytes()
    plan.launch([count * size for count in (2, 4, 2 * tiles, tiles) for size in (value, index)])
    if tiles * 32 != wanted:
        made = [_cut(plan, one, wanted, memory) for one in made]
    plan.free(held.slot)
    return plan.finish_all([(one.slot, one.spec) for one in made])


def _cut(plan: PlanWriter, held: Held, wanted: int, memory: Memory) -> Held:
    """What was found beyond the wanted: of four dimensions it is forgotten, of fewer it is sliced off."""
    shape, lead = held.spec.shape, 4 - len(held.spec.shape)
    ends = [*[1] * lead, *shape[:-1], wanted]
    if lead:
        four = Held(held.slot, replace(held.spec, shape=(1,) * lead + shape))
        cut = applied(plan, slice_, four, memory, begins=[0] * 4, ends=ends, steps=None)
        held = replaced(plan, held, cut)
    return Held(held.slot, replace(held.spec, shape=(*shape[:-1], wanted)))


def _draw_argmax(record: OperationRecord, choose: Choose) -> list[Step]:
    source = draws.tensor(choose, most=4)
    named: dict[str, Any] = {"keepdim": True} if choose.integer(0, 1) else {}
    if choose.integer(0, 3):
        named["dim"] = choose.integer(-len(source["shape"]), -1)
    return write_call(record.name, [source], memory=draws.wish(choose), **named)


def _draw_rows(record: OperationRecord, choose: Choose) -> list[Step]:
    """Several rows at once, whose buffers are known from both sides only."""
    return write_call(
        record.name, [{**draws.tensor(choose, most=4), "layout": "row_major", "dtype": "bfloat16"}], dim=-1
    )


def _draw_topk(record: OperationRecord, choose: Choose) -> list[Step]:
    source = {**draws.tensor(choose, tile_only=True, most=4), "dtype": "bfloat16"}
    if choose.integer(0, 1):
        source["shape"][-1] = choose.one_of((300, 1000, 1500, 10000))
    most = choose.integer(1, min(source["shape"][-1], 400))
    _, named = draws.options(record, choose)
    return write_call(record.name, [source], k=most, dim=-1, memory=draws.wish(choose), **named)


RECORDS = (
    record_of(
        write_call("argmax", [EXAMPLE_TENSOR], dim=-1),
        argmax,
        _draw_argmax,
        *(Argument("dim", default=None), Argument("keepdim", default=False)),
        draw_bounded=_draw_rows,
    ),
    record_of(
        write_call("topk", [EXAMPLE_TENSOR], k=32, dim=-1),
        topk,
        _draw_topk,
        Argument("k", 0),
        Argument("dim", default=-1),
        *(Argument(name, default=True, samples=(True, False)) for name in ("largest", "sorted")),
    ),
)
