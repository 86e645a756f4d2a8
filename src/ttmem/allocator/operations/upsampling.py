# SPDX-License-Identifier: Apache-2.0
"""Images made larger: pixels repeated where they lie, or blended out of shards with a halo."""

from dataclasses import replace
from math import floor
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.operations.convolution_schemes import divided, row_by_row
from ttmem.allocator.operations.elementwise import result_like
from ttmem.allocator.operations.halos import Dealing, deal, gather
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.sliding_window import Window
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.allocator.programs import CIRCULAR
from ttmem.hardware import BFLOAT16, L1
from ttmem.tensors import ROW_MAJOR, Shard, TensorSpec, paging_of, round_up

_NARROWEST = "input channels should be divisible by 32"
_MOST_TILES = 8


def upsample(call: Call, plan: PlanWriter) -> Plan:
    """Channels come last."""
    source, given = call.inputs[0], call.arguments["scale_factor"]
    factors = tuple(given) if isinstance(given, (list, tuple)) else (given, given)
    if len(factors) != 2 or len(source.shape) != 4 or not all(float(factor) > 0 for factor in factors):
        raise BadInputError(
            f"upsample needs a tensor of rank 4 and two factors, not {list(source.shape)} and {given!r}"
        )
    if source.shard is not None or source.layout is not ROW_MAJOR:
        return plan.give_up("upsample of sharded tensors and of tiles")
    whole = all(float(factor) == int(factor) for factor in factors)
    if call.arguments["mode"] == "bilinear":
        if not whole or source.dtype is not BFLOAT16:
            return plan.give_up("bilinear upsample takes bfloat16 and whole factors")
        return _bilinear(call, plan, (int(factors[0]), int(factors[1])))
    batch, height, width, channels = source.shape
    shape = (batch, floor(height * float(factors[0])), floor(width * float(factors[1])), channels)
    result = replace(result_like(source, call.memory), shape=shape)
    page = paging_of(source).page_bytes
    if not whole:
        return plan.one_program(result, [4 * round_up(page, plan.memory_map.page_alignment_bytes(result.memory))])
    pixels_per_core = divided(batch * height * width, plan.memory_map.grid.cores)
    row = round_up(page, plan.memory_map.architecture.dram_alignment_bytes)
    return plan.one_program(result, [min(2, pixels_per_core) * row])


def _bilinear(call: Call, plan: PlanWriter, scale: tuple[int, int]) -> Plan:
    """Every core has some pixels and those around them; the result is in shards, and copied where it is wanted."""
    source = call.inputs[0]
    batch, height, width, channels = source.shape
    window = Window(batch, height, width, (2, 2), padding=(1, 1, 1, 1), enlarged=scale)
    grid, pixels = plan.memory_map.grid, batch * height * width
    cores = min(grid.cores, pixels)
    ranges, per_core = row_by_row(cores, grid), divided(pixels, cores)
    dealing = Dealing(window, "height", ranges, cores, channels, channels, per_core, divided(window.outputs, cores))
    slot, dealt = deal(plan, dealing, source, is_padded=False)
    gathered, halo = gather(plan, dealing, slot, dealt, frees_input=False, moves=False)
    shape = (batch, window.output_height, window.output_width, channels)
    shard = Shard("height", dealing.outputs_per_core, channels, ranges)
    result = TensorSpec(shape, source.dtype, ROW_MAJOR, L1, shard)
    made = plan.allocate(result)
    if channels % 32:
        plan.refuse(_NARROWEST)
    stick, tile = halo.dtype.mantissa_bits // 8 * channels, halo.dtype.tile_bytes()
    most = _MOST_TILES * 32 * halo.dtype.mantissa_bits // 8
    plan.launch([8 * min(stick, most), 8 * stick, 2 * tile, 2 * tile], CIRCULAR)
    if call.memory is None:
        plan.free(gathered, slot)
        return plan.finish(made, result)
    wanted = replace(result, memory=call.memory, shard=None)
    delivered = plan.allocate(wanted)
    plan.free(made, gathered, slot)
    return plan.finish(delivered, wanted)


def _draw_upsample(record: OperationRecord, choose: Choose) -> list[Step]:
    shape = [choose.one_of((1, 2)), *(choose.one_of((1, 7, 16, 20, 33)) for _ in range(2)), 32 * choose.integer(1, 9)]
    named: dict[str, Any] = {"mode": choose.one_of(("nearest", "bilinear"))} if choose.integer(0, 2) else {}
    memory = choose.one_of(("L1", "DRAM"))
    source = {"shape": shape, "dtype": "bfloat16", "layout": "row_major", "memory": memory}
    return write_call(record.name, [source], [choose.integer(1, 4), choose.integer(1, 4)], memory=memory, **named)


RECORDS = (
    record_of(
        write_call(
            "upsample", [{"shape": [1, 8, 8, 32], "dtype": "bfloat16", "layout": "row_major", "memory": "DRAM"}], [2, 2]
        ),
        upsample,
        _draw_upsample,
        *(Argument("scale_factor", 0), Argument("mode", default="nearest")),
    ),
)
