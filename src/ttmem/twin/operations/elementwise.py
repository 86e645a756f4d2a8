# SPDX-License-Identifier: Apache-2.0
"""What operations that look at one element at a time share; typecast and clone."""

from dataclasses import replace

from ttmem.base.arithmetic import round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import (
    DATA_TYPES,
    L1,
    DataType,
    Memory,
)
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, record_of, write_call
from ttmem.twin.operations.plan import Call, Plan, PlanWriter
from ttmem.twin.operations.record import Argument, Step
from ttmem.twin.paging import paging_of
from ttmem.twin.tensor_spec import InvalidSpecError, Shard, TensorSpec


def result_like(spec: TensorSpec, memory: Memory | None = None, dtype: DataType | None = None) -> TensorSpec:
    """The spec of a result: as its input, unless the caller asked for another memory or type."""
    sharded = spec.shard if memory is None else None
    return replace(spec, memory=memory or spec.memory, dtype=dtype or spec.dtype, shard=sharded)


def double_buffered_tiles(*specs: TensorSpec) -> list[int]:
    """Two tiles per stream, in tile bytes even when the tensors are row-major."""
    return [2 * spec.dtype.tile_bytes(spec.tile) for spec in specs]


def aligned_page(plan: PlanWriter, spec: TensorSpec) -> int:
    """A page as it lies in memory."""
    return round_up(paging_of(spec).page_bytes, plan.memory_map.page_alignment_bytes(spec.memory))


def l1_space_with_its_top(plan: PlanWriter) -> int:
    """Where L1 is empty some of the library forgets what is set aside at its top."""
    known, whole = plan.memory_map, plan.l1_space()
    is_empty = whole == known.l1.bytes_per_bank
    return known.architecture.l1_bytes_per_core - known.l1_base_address if is_empty else whole


def double_buffered_rows(plan: PlanWriter, paged: TensorSpec, *specs: TensorSpec) -> list[int]:
    """Two pages of a row-major tensor, aligned for the memories of all that take part."""
    alignment = max(plan.memory_map.page_alignment_bytes(spec.memory) for spec in specs)
    return [2 * round_up(paging_of(paged).page_bytes, alignment)]


def spell_type(dtype: DataType) -> str:
    """As the library's messages do."""
    return f"DataType::{dtype.name.upper()}"


def check_integers(
    plan: PlanWriter, source: TensorSpec, result: TensorSpec | None, called: str, allowed: tuple[DataType, ...]
) -> None:
    """Most unary operations take floats alone. There must be room for the result before anybody looks at its type."""
    if source.dtype.is_float or source.dtype in allowed:
        return
    if result is not None:
        plan.allocate(padded_like(source, result))
    plan.refuse(f"Unary: UnaryOpType::{called} does not support integer input dtype {spell_type(source.dtype)}")


def wanted_like(call: Call, spec: TensorSpec) -> TensorSpec:
    """The spec of a call's result, cut as the caller wants it."""
    result = result_like(spec, call.memory)
    return replace(result, shard=call.shard) if call.shard is not None else result


CORES_OF_SHARDS = "sub_core_grids of shards, which lie on cores already"


def names_cores_of_shards(call: Call) -> bool:
    is_cut = call.shard is not None or call.inputs[0].shard is not None
    return is_cut and call.arguments.get("sub_core_grids") is not None


def one_to_one(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> Plan:
    """Two tiles of each, or none where shards are worked on in their place."""
    result = padded_like(source, result)
    return plan.one_program(result, [] if borrows(plan, source, result) else double_buffered_tiles(source, result))


def padded_like(source: TensorSpec, result: TensorSpec) -> TensorSpec:
    """Rows that are longer in their shards leave them as they are."""
    if not has_longer_rows(source) or result.shard is not None:
        return result
    return replace(result, alignment=(1, source.padded[-1]))


def borrows(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> bool:
    """Whether kernels work on the shards in place: in L1, on the same cores, none cut short; rows in whole tiles that
    have no gaps between them.
    """
    one, two = source.shard, result.shard
    if not isinstance(one, Shard) or one != two or source.memory is not L1 or result.memory is not L1:
        return False
    if not has_whole_shards(source) or source.is_tiled:
        return has_whole_shards(source)
    return one.height * one.width % 1024 == 0 and paging_of(source).page_bytes == aligned_page(plan, source)


LONGER_ROWS = "rows that are longer in their shards: the result's rows are too"


def has_longer_rows(spec: TensorSpec) -> bool:
    """Whether rows in shards are longer than the tensor says: a result out of shards would be padded like them."""
    return not spec.is_tiled and spec.shard is not None and bool(spec.shape) and bool(spec.shape[-1] % spec.shard.width)


OWN_KERNELS = "shards to shards, or of rows: the library picks kernels and shards of its own"


def read_by_pages(call: Call) -> Call | None:
    """The call as it is for kernels that read tiles page by page, be they in shards or not: the result is wanted in
    pages. None: there are kernels for the shards, and a result of their choice.
    """
    if call.shard is None and all(spec.shard is None for spec in call.inputs):
        return call
    if call.memory is None or call.shard is not None or any(not spec.is_tiled for spec in call.inputs):
        return None
    return replace(call, inputs=tuple(replace(spec, shard=None) for spec in call.inputs))


def has_whole_shards(spec: TensorSpec) -> bool:
    """No shard is cut short; some cores may have none."""
    shard = spec.shard
    if not isinstance(shard, Shard):
        return False
    paging = paging_of(spec)
    return not (paging.physical_height % shard.height or paging.physical_width % shard.width)


def typecast(call: Call, plan: PlanWriter) -> Plan:
    source = call.inputs[0]
    if names_cores_of_shards(call):
        return plan.give_up(CORES_OF_SHARDS)
    if not source.is_tiled and call.arguments.get("sub_core_grids") is not None:
        return plan.give_up("rows of another type on cores that the caller names")
    result = replace(wanted_like(call, source), dtype=DATA_TYPES.find(str(call.arguments["dtype"])))
    return plan.finish(cast(plan, source, result), result)


def cast(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> int:
    """Also what other operations insert around themselves."""
    slot = plan.allocate(result)
    if spell_cut(source) != spell_cut(result):
        plan.refuse(
            "Typecast operation requires Input and Output memory layout to match. Input layout: "
            f"TensorMemoryLayout::{spell_cut(source)}, Output layout: TensorMemoryLayout::{spell_cut(result)}"
        )
    if source.shard is not None and (page := paging_of(source).page_bytes) != aligned_page(plan, source):
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
    paging = paging_of(spec)
    return paging.pages, paging.page_bytes // (spec.dtype.element_bytes or 1)


def _casts_in_place(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> bool:
    """Shards of L1 whose tiles are of one size before and after."""
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


def spell_cut(spec: TensorSpec) -> str:
    shard = spec.shard
    if shard is None:
        return "INTERLEAVED"
    return f"{shard.kind.upper() if isinstance(shard, Shard) else 'ND'}_SHARDED"


def clone(call: Call, plan: PlanWriter) -> Plan:
    """Two pages pass through; of rows in shards these are as long as the shards."""
    source = call.inputs[0]
    result = wanted_like(call, source)
    slot = plan.allocate(result)
    if source.shard is not None and result.shard is not None and spell_cut(source) != spell_cut(result):
        plan.refuse("Clone: input and output must have the same memory layout when both are sharded")
    if spell_cut(source) != spell_cut(result):
        plan.refuse(
            "Clone: mixed sharded/interleaved layout not currently supported. Both input and output must have the same "
            "layout."
        )
    if source.shard != result.shard:
        plan.refuse("Clone: input and output shard specs must be identical (same grid, shape, and orientation)")
    plan.launch(double_buffered_tiles(source) if source.is_tiled else double_buffered_rows(plan, source, source))
    return plan.finish(slot, result)


def check_target(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """What a tensor is written into has the shape of the result; ones in front of it do not count."""
    longest = max(len(shape), len(wanted))
    if (1,) * (longest - len(shape)) + shape != (1,) * (longest - len(wanted)) + wanted:
        raise InvalidSpecError(
            f"Shape of Output tensor Shape({list(shape)}) provided does not match the broadcasted output shape "
            f"Shape({list(wanted)})"
        )


def broadcast_shape(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """Refused in the library's words: by its kernels where nothing is repeated within tiles, else by dimension."""
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
"""How many cores share the work changes nothing in what each of them needs."""
RECORDS = (
    record_of(
        write_call("typecast", [EXAMPLE_TENSOR], {"dtype": "bfloat8_b"}),
        typecast,
        Argument("dtype", 0),
        CORES,
        is_drawn_odd=True,
        takes_shards=True,
    ),
    # The static buffers of row-major clones are as wide as their rows.
    record_of(
        write_call("clone", [EXAMPLE_TENSOR]),
        clone,
        is_drawn_odd=True,
        takes_shards=True,
    ),
)
