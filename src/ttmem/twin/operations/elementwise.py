# SPDX-License-Identifier: Apache-2.0
"""Typecast and clone, and the result specs, streams, checks and copies that most operations share."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import gcd, prod

from ttmem.base.arithmetic import round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT16, DATA_TYPES, L1, DataType, Memory
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.record import Argument, Step
from ttmem.twin.placement import compute_paging
from ttmem.twin.programs import CIRCULAR, DATAFLOW
from ttmem.twin.tensor_spec import InvalidSpecError, Shard, TensorSpec


def spec_like(spec: TensorSpec, memory: Memory | None = None, dtype: DataType | None = None) -> TensorSpec:
    """Return the spec of a result: the input's, in another memory or type if the caller wants it."""
    sharded = spec.shard if memory is None else None
    return replace(spec, memory=memory or spec.memory, dtype=dtype or spec.dtype, shard=sharded)


def double_buffered_tiles(*specs: TensorSpec) -> list[int]:
    """Return two tiles per stream, in tile bytes even for row-major tensors."""
    return [2 * spec.dtype.tile_bytes(spec.tile) for spec in specs]


def compute_aligned_page_bytes(plan: PlanBuilder, spec: TensorSpec) -> int:
    """Return the bytes of a page with its alignment."""
    return round_up(compute_paging(spec).page_bytes, plan.memory_map.page_alignment_bytes(spec.memory))


def measure_l1_space_with_reserved_top(plan: PlanBuilder) -> int:
    """Return the L1 space; for an empty L1 parts of the library count the reserved top too."""
    known, whole = plan.memory_map, plan.l1_space()
    is_empty = whole == known.l1.bytes_per_bank
    return known.architecture.l1_bytes_per_core - known.l1_base_address if is_empty else whole


def double_buffered_rows(plan: PlanBuilder, paged: TensorSpec, *specs: TensorSpec) -> list[int]:
    """Return two pages of a row-major tensor, aligned for the memories of ``specs``."""
    alignment = max(plan.memory_map.page_alignment_bytes(spec.memory) for spec in specs)
    return [2 * round_up(compute_paging(paged).page_bytes, alignment)]


def dtype_name(dtype: DataType) -> str:
    """Return the name in the library's messages."""
    return f"DataType::{dtype.name.upper()}"


def check_integers(
    plan: PlanBuilder, source: TensorSpec, result: TensorSpec | None, called: str, allowed: tuple[DataType, ...]
) -> None:
    """Refuse integers that are not allowed; the library allocates the result before it checks the type."""
    if source.dtype.is_float or source.dtype in allowed:
        return
    if result is not None:
        plan.allocate(pad_spec(source, result))
    plan.refuse(f"Unary: UnaryOpType::{called} does not support integer input dtype {dtype_name(source.dtype)}")


def result_spec(call: Call, spec: TensorSpec) -> TensorSpec:
    """Return the spec of a call's result, in the memory and shard that the caller wants."""
    result = spec_like(spec, call.memory)
    return replace(result, shard=call.shard) if call.shard is not None else result


CORES_OF_SHARDS = "sub_core_grids of sharded tensors"


def restricts_cores_of_shards(call: Call) -> bool:
    is_cut = call.shard is not None or call.inputs[0].shard is not None
    return is_cut and call.arguments.get("sub_core_grids") is not None


def one_to_one(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> Plan:
    """Plan one program with two tiles of each tensor, or none if shards are used in place."""
    result = pad_spec(source, result)
    return plan.finish_with_program(
        result, [] if works_in_place(plan, source, result) else double_buffered_tiles(source, result)
    )


def pad_spec(source: TensorSpec, result: TensorSpec) -> TensorSpec:
    """Return the result with the padding of the source's row-major shards."""
    if not has_padded_shard_rows(source) or result.shard is not None:
        return result
    return replace(result, alignment=(1, source.padded[-1]))


def works_in_place(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> bool:
    """Return whether kernels use L1 shards in place: equal, none partial, rows in whole tiles without gaps."""
    one, two = source.shard, result.shard
    if not isinstance(one, Shard) or one != two or source.memory is not L1 or result.memory is not L1:
        return False
    if not has_whole_shards(source) or source.is_tiled:
        return has_whole_shards(source)
    return one.height * one.width % 1024 == 0 and compute_paging(source).page_bytes == compute_aligned_page_bytes(
        plan, source
    )


PADDED_SHARD_ROWS = "padded row-major shards, whose result is padded too"


def has_padded_shard_rows(spec: TensorSpec) -> bool:
    """Return whether shards pad the rows: an interleaved result would have the same padding."""
    return not spec.is_tiled and spec.shard is not None and bool(spec.shape) and bool(spec.shape[-1] % spec.shard.width)


OWN_KERNELS = "sharded to sharded, or row-major shards: the library selects kernels and shards itself"


def has_whole_shards(spec: TensorSpec) -> bool:
    """Return whether no shard is partial; some cores may have none."""
    shard = spec.shard
    if not isinstance(shard, Shard):
        return False
    paging = compute_paging(spec)
    return not (paging.physical_height % shard.height or paging.physical_width % shard.width)


def typecast(call: Call, plan: PlanBuilder) -> Plan:
    source = call.inputs[0]
    if restricts_cores_of_shards(call):
        return plan.unknown(CORES_OF_SHARDS)
    if not source.is_tiled and call.arguments.get("sub_core_grids") is not None:
        return plan.unknown("typecast of row-major tensors on the caller's cores")
    result = replace(result_spec(call, source), dtype=DATA_TYPES.find(str(call.arguments["dtype"])))
    return plan.finish(cast(plan, source, result), result)


def cast(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> int:
    """Add a typecast; other operations use it too."""
    slot = plan.allocate(result)
    if memory_layout_name(source) != memory_layout_name(result):
        plan.refuse(
            "Typecast operation requires Input and Output memory layout to match. Input layout: "
            f"{memory_layout_name(source)}, Output layout: {memory_layout_name(result)}"
        )
    if source.shard is not None and (page := compute_paging(source).page_bytes) != compute_aligned_page_bytes(
        plan, source
    ):
        alignment = plan.memory_map.architecture.l1_alignment_bytes
        plan.refuse(
            f"Typecast operation requires sharded input tensor page size ({page} bytes) to be aligned to L1 "
            f"({alignment} bytes)"
        )
    in_place = _casts_in_place(plan, source, result)
    if in_place and isinstance(source.shard, Shard) and isinstance(result.shard, Shard):
        if source.shard.cores != result.shard.cores:
            plan.refuse(
                f"Output tensor should have same number of cores {result.shard.cores} as input tensor "
                f"{source.shard.cores}"
            )
    elif source.shard is not None and not source.is_tiled:
        pages, elements = zip(*map(_rows_and_lengths, (source, result)), strict=True)
        if len(set(pages)) > 1 or len(set(elements)) > 1:
            plan.refuse(
                f"Row-major typecast requires matching page geometry, got input {pages[0]} pages of {elements[0]} "
                f"elements and output {pages[1]} pages of {elements[1]} elements"
            )
    plan.launch([] if in_place else double_buffered_tiles(source, result))
    return slot


def _rows_and_lengths(spec: TensorSpec) -> tuple[int, int]:
    paging = compute_paging(spec)
    return paging.pages, paging.page_bytes // (spec.dtype.element_bytes or 1)


def _casts_in_place(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> bool:
    """Return whether tiles of L1 shards have the same size before and after."""
    shard, tile = source.shard, source.tile_bytes
    if not isinstance(shard, Shard) or source.memory is not L1 or result.memory is not L1:
        return False
    if tile != result.tile_bytes:
        return False
    element = source.dtype.element_bytes
    if source.dtype.is_block_float or not element:
        return True
    row = shard.width * element
    return not (row % plan.memory_map.architecture.l1_alignment_bytes or shard.height * row % tile)


def clone(call: Call, plan: PlanBuilder) -> Plan:
    """Plan clone with two pages; pages of row-major shards are as long as the shards."""
    source = call.inputs[0]
    result = result_spec(call, source)
    slot = plan.allocate(result)
    if (
        source.shard is not None
        and result.shard is not None
        and memory_layout_name(source) != memory_layout_name(result)
    ):
        plan.refuse("Clone: input and output must have the same memory layout when both are sharded")
    if memory_layout_name(source) != memory_layout_name(result):
        plan.refuse(
            "Clone: mixed sharded/interleaved layout not currently supported. Both input and output must have the same "
            "layout."
        )
    if source.shard != result.shard:
        plan.refuse("Clone: input and output shard specs must be identical (same grid, shape, and orientation)")
    plan.launch(double_buffered_tiles(source) if source.is_tiled else double_buffered_rows(plan, source, source))
    return plan.finish(slot, result)


def check_output_shape(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Check that an output tensor has the shape of the result, apart from leading ones."""
    longest = max(len(shape), len(wanted))
    if (1,) * (longest - len(shape)) + shape != (1,) * (longest - len(wanted)) + wanted:
        raise InvalidSpecError(
            f"Shape of Output tensor Shape({list(shape)}) provided does not match the broadcasted output shape "
            f"Shape({list(wanted)})"
        )


def broadcast_shape(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """Return the broadcast shape, or refuse it as the library does: by kernel, or by dimension."""
    rank = max(len(first), len(second))
    one = (1,) * (rank - len(first)) + first
    two = (1,) * (rank - len(second)) + second
    for place in reversed(range(rank)):
        a, b = one[place], two[place]
        if a != b and 1 not in (a, b):
            if one[-2:] != two[-2:] and 1 not in (*one[-2:], *two[-2:]):
                raise BadInputError("Invalid subtile broadcast type")
            raise BadInputError(
                f"Broadcasting rule violation at dimension index {place - rank} (output rank {rank}), "
                f"dim a: {a}, dim b: {b}"
            )
    return tuple(max(a, b) if 0 not in (a, b) else 0 for a, b in zip(one, two, strict=True))


_SOME_CORES: Step = {
    "new": "ttnn.CoreRangeSet",
    "args": [[{"new": "ttnn.CoreRange", "args": [{"tuple": [0, 0]}, {"tuple": [3, 2]}]}]],
}
CORES = Argument("sub_core_grids", default=None, samples=(None, None, None, _SOME_CORES))
"""The number of cores does not change the memory of each."""
RECORDS = (
    build_record(
        format_call("typecast", [EXAMPLE_TENSOR], {"dtype": "bfloat8_b"}),
        typecast,
        Argument("dtype", 0),
        CORES,
        verified_low_rank_and_rare_types=True,
    ),
    # The static buffers of row-major clones are as wide as their rows.
    build_record(format_call("clone", [EXAMPLE_TENSOR]), clone, verified_low_rank_and_rare_types=True),
)


def layout_name(spec: TensorSpec) -> str:
    """Return the name in the library's messages."""
    return "Layout::TILE" if spec.is_tiled else "Layout::ROW_MAJOR"


def memory_layout_name(spec: TensorSpec) -> str:
    """Return the name that the library's messages print."""
    return f"TensorMemoryLayout::{f'{spec.shard_kind}_sharded'.upper() if spec.shard else 'INTERLEAVED'}"


def allocate_results(plan: PlanBuilder, results: Sequence[TensorSpec], faults: Iterable[str]) -> list[int]:
    """Allocate the results and return their slots; the first fault ends the plan with the library's message."""
    slots = [plan.allocate(spec) for spec in results]
    why = next(filter(None, faults), "")
    if why:
        plan.refuse(why)
    return slots


def describe_not_in_l1(buffer: str, parameter: str, spec: TensorSpec) -> str:
    """Return the library's message for a tensor that is used in place outside L1; empty: it is in L1."""
    if spec.memory is L1:
        return ""
    return (
        f"DFB '{buffer}' borrows memory from TensorParameter '{parameter}', but its TensorSpec is not L1-resident (L1 "
        "is required). Both L1 and L1_SMALL are accepted."
    )


_LONGEST_ROW_BYTES = 1 << 18
"""Longer rows are copied in parts of this size."""


def has_tile_padding(spec: TensorSpec) -> bool:
    height, width = (1, 1, *spec.shape)[-2:]
    return bool(height % spec.tile.height or width % spec.tile.width)


def fill_padding(plan: PlanBuilder, spec: TensorSpec) -> int:
    """Fill the padding of tiles, block floats through bfloat16; return the slot, -1 for the input itself."""
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


def fill_in_place(plan: PlanBuilder, spec: TensorSpec) -> None:
    height, width = (1, 1, *spec.shape)[-2:]
    tile = spec.dtype.tile_bytes(spec.tile)
    masks = [tile] * (bool(height % spec.tile.height) + bool(width % spec.tile.width))
    plan.launch([2 * tile, *masks, 2 * tile])


def copy_between(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> int:
    """Copy to a new buffer with the same pages."""
    slot = plan.allocate(result)
    launch_copy(plan, source, result)
    return slot


def launch_copy(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> None:
    """Launch a copy; rows that change memory use an unaligned buffer, another kernel copies within a memory."""
    stays = (source.memory, source.shard) == (result.memory, result.shard)
    if source.is_tiled:
        buffers = double_buffered_tiles(*([source] if source.dtype is result.dtype else [source, result]))
    elif stays:
        buffers = double_buffered_rows(plan, result, result)
    elif part := _compute_row_part(plan, source, result):
        buffers = [2 * part]
    else:
        rows = double_buffered_rows(plan, result, result)
        buffers = [min(2 * _LONGEST_ROW_BYTES, *rows), min(_LONGEST_ROW_BYTES, compute_paging(source).page_bytes)]
    plan.launch(buffers, CIRCULAR if stays and source.dtype is result.dtype else DATAFLOW)


def _compute_row_part(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> int:
    """Return the part of a row that a core copies if rows are few; 0: it is unaligned or a whole row."""
    part = gcd(compute_paging(source).page_bytes, compute_paging(result).page_bytes)
    alignment = max(plan.memory_map.page_alignment_bytes(spec.memory) for spec in (source, result))
    row_bytes = source.shape[-1] * source.element_bytes
    is_dealt = prod(source.shape[:-1]) < plan.memory_map.grid.cores and part % alignment == 0 and part < row_bytes
    return part if is_dealt else 0
