# SPDX-License-Identifier: Apache-2.0
"""Repeat and expand: one copy per repeated dimension, each replacing the previous one; repeats of shards in place."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT16, DRAM, L1, UINT8, Grid
from ttmem.twin.operations import result_shards
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import (
    PADDED_SHARD_ROWS,
    compute_aligned_page_bytes,
    has_padded_shard_rows,
    has_whole_shards,
    result_spec,
    spec_like,
)
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.to_layout import change_layout, tilize, untilize, untilize_plainly
from ttmem.twin.placement import compute_paging, place
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import TILE, InvalidSpecError, NdShard, Shard, TensorSpec


def has_whole_pages(spec: TensorSpec) -> bool:
    """Return whether shards hold whole tiles or rows, none is cut short, and no row or column of a block's cores is
    empty.
    """
    if spec.shard is None:
        return True
    try:
        is_even = has_whole_shards(spec) and not has_padded_shard_rows(spec)
    except InvalidSpecError:
        return False
    shard = spec.shard
    if not is_even or (isinstance(shard, Shard) and shard.kind == "block" and _leaves_cores_idle(spec, shard)):
        return False
    return spec.is_tiled or shard.width == spec.shape[-1]


def _leaves_cores_idle(spec: TensorSpec, shard: Shard) -> bool:
    paging, box = compute_paging(spec), result_shards.find_rectangle(shard)
    shards = paging.physical_height // shard.height, paging.physical_width // shard.width
    return box is None or shards != ((box.columns, box.rows) if shard.by_column else (box.rows, box.columns))


def has_wide_grid(spec: TensorSpec) -> bool:
    """Return whether the shards have more columns of cores than rows, where cores repeat longer rows themselves."""
    box = result_shards.find_rectangle(spec.shard) if isinstance(spec.shard, Shard) else None
    return box is not None and box.columns > box.rows


def is_block_by_column(spec: TensorSpec) -> bool:
    return isinstance(spec.shard, Shard) and spec.shard.kind == "block" and spec.shard.by_column


def can_repeat_in_place(source: TensorSpec, wanted: TensorSpec, times: Sequence[int]) -> bool:
    """Return whether each core can repeat its own L1 shard along the one repeated dimension."""
    shard, after = source.shard, wanted.shard
    repeated = [axis for axis, number in enumerate(times) if number > 1]
    if len(repeated) != 1 or not isinstance(shard, Shard) or source.memory is not L1:
        return False
    if not has_whole_shards(source) or (source.is_tiled and any(size % 32 for size in source.shape[-2:])):
        return False
    if isinstance(after, Shard) and (
        wanted.memory is not L1 or (after.kind, after.ranges) != (shard.kind, shard.ranges)
    ):
        return False
    (axis,) = repeated
    if axis == len(times) - 1:
        return source.is_tiled or shard.kind == "height"
    *outer, _ = source.padded
    return shard.height % prod(outer[axis:]) == 0


def choose_repeated_shard(source: TensorSpec, times: Sequence[int], shape: tuple[int, ...], grid: Grid) -> Shard | None:
    """Return the input's shards, enlarged, if each core repeats its own, else shards over the whole grid, or None."""
    shard = source.shard
    assert isinstance(shard, Shard)
    if can_repeat_in_place(source, replace(source, shard=None), times):
        number = prod(times)
        if times[-1] > 1:
            return replace(shard, width=shard.width * number)
        return replace(shard, height=shard.height * number)
    return result_shards.spread_over_grid(replace(source, shape=shape), shard.kind, grid, by_column=shard.by_column)


_PAGES_AT_ONCE = 8
_NO_BYTES = "Can only work with UINT16, BFLOAT16, UINT32, INT32, FLOAT32 data types"
_SPARE_BYTES = 128
"""The extra bytes of the kernel for ranks other than 2 to 4, which shifts pages into alignment."""


def repeat(call: Call, plan: PlanBuilder) -> Plan:
    times = [int(number) for number in call.arguments["repeat_dims"]]
    return _repeat_input(call, plan, times)


def expand(call: Call, plan: PlanBuilder) -> Plan:
    """Repeat dimensions of size 1; -1 keeps a dimension."""
    shape, wanted = call.inputs[0].shape, [int(size) for size in call.arguments["output_shape"]]
    if len(wanted) < len(shape):
        raise BadInputError(f"cannot expand {list(shape)} to {wanted}")
    padded = (1,) * (len(wanted) - len(shape)) + shape
    for own, size in zip(padded, wanted, strict=True):
        if size not in (-1, own) and own != 1:
            raise InvalidSpecError("Only size 1 dimensions can be expanded in the output shape")
    return _repeat_input(
        call, plan, [1 if size in (-1, own) else size for own, size in zip(padded, wanted, strict=True)]
    )


def _repeat_input(call: Call, plan: PlanBuilder, times: list[int]) -> Plan:
    source = call.inputs[0]
    rank = max(len(source.shape), len(times))
    times = [1] * (rank - len(times)) + times
    source = replace(source, shape=(1,) * (rank - len(source.shape)) + source.shape)
    if not rank:
        raise InvalidSpecError("repeat does not support rank 0 tensors")
    if has_padded_shard_rows(source) and (set(times) != {1} or source.shape != call.inputs[0].shape):
        return plan.unknown(PADDED_SHARD_ROWS)
    if set(times) <= {1}:
        return to_memory_config(replace(call, inputs=(source,)), plan)
    if 0 in times:
        return plan.unknown("a tensor without elements")
    if isinstance(source.shard, NdShard):
        return plan.unknown("a repeat of ND shards")
    is_refused = source.dtype is UINT8 and not 2 <= rank <= 4 and not _can_repeat_tiles(source, times)
    if source.shard is not None or call.shard is not None:
        if is_refused:
            return plan.unknown("uint8 shards of rank 1 or above 4")
        return _repeat_shards(call, plan, source, times)
    if is_refused:
        raise InvalidSpecError(_NO_BYTES)
    made = _repeat(plan, TensorHandle(-1, source), times, spec_like(source, call.memory))
    return plan.finish(made.slot, made.spec)


def _repeat(plan: PlanBuilder, held: TensorHandle, times: list[int], like: TensorSpec) -> TensorHandle:
    """Repeat; tiles that cannot be repeated as such are untilized in the input's memory, repeated into that of the
    result, and tilized again. The input is freed once it has been read.
    """
    source = held.spec
    if not source.is_tiled or _can_repeat_tiles(source, times):
        return _repeat_pages(plan, held, times, like)
    rows = change_layout(source, tiled=False)
    plain = source.dtype is BFLOAT16 and 2 <= len(source.shape) <= 4
    made = plan.replace_tensor(held, TensorHandle((untilize_plainly if plain else untilize)(plan, source, rows), rows))
    repeated = _repeat_pages(plan, made, times, replace(rows, memory=like.memory), was=source)
    result = replace(repeated.spec, layout=TILE, dtype=source.dtype)
    return plan.replace_tensor(repeated, TensorHandle(tilize(plan, repeated.spec, result), result))


def _repeat_shards(call: Call, plan: PlanBuilder, source: TensorSpec, times: list[int]) -> Plan:
    """Repeat shards: those that hold whole pages in place. Others, and tiles that become rows, go through pages of
    DRAM, or of L1 where older kernels repeat them.
    """
    wanted = replace(result_spec(call, source), shape=_multiply_shape(source.shape, times))
    if call.memory is None and source.shard is not None:
        wanted = replace(wanted, shard=choose_repeated_shard(source, times, wanted.shape, plan.memory_map.grid))
    is_tiled = source.is_tiled
    if not is_tiled and all(is_block_by_column(spec) for spec in (source, wanted)):
        return plan.unknown("row-major block shards with column-major cores")
    becomes_rows = is_tiled and not _can_repeat_tiles(source, times)
    plainly = 2 <= len(source.shape) <= 4 and not (becomes_rows and source.dtype.is_block_float)
    reads, writes = (plainly and not becomes_rows and has_whole_pages(spec) for spec in (source, wanted))
    is_plain = plainly and (is_tiled or (reads and (writes or wanted.shard is None)))
    if not is_tiled and times[-1] > 1 and wanted.shard is not None and has_wide_grid(source):
        is_plain = False
    if not is_plain and can_repeat_in_place(source, wanted, times):
        return _repeat_in_place(plan, source, wanted, times)
    inside = source
    if source.shard is not None and not reads:
        inside = replace(source, memory=DRAM if plainly else L1, shard=None)
    like = replace(source, memory=wanted.memory, shard=wanted.shard if writes else None)
    if plainly and _is_short(plan, inside, times, like):
        return plan.unknown("a repeat of shards where L1 is short")
    held = TensorHandle(-1, source)
    if inside is not source:
        held = plan.apply(to_memory_config, held, inside.memory)
    made = _repeat(plan, held, times, like)
    if wanted.shard != made.spec.shard:
        made = plan.advance(to_memory_config, made, wanted.memory, wanted.shard)
    return plan.finish(made.slot, made.spec)


def _repeat_in_place(plan: PlanBuilder, source: TensorSpec, wanted: TensorSpec, times: list[int]) -> Plan:
    """Repeat through one page; rows count as a whole, regardless of their shards."""
    if source.dtype is UINT8 and not source.is_tiled:
        raise InvalidSpecError(_NO_BYTES)
    whole = source if source.is_tiled else replace(source, shard=None)
    return plan.finish_with_program(wanted, _compute_shifted_buffers(whole, is_last=times[-1] > 1)[:1])


def _multiply_shape(shape: Iterable[int], times: Iterable[int]) -> tuple[int, ...]:
    return tuple(size * number for size, number in zip(shape, times, strict=True))


def _can_repeat_tiles(source: TensorSpec, times: list[int]) -> bool:
    rank = len(source.shape)
    if rank < 2 or not source.is_tiled:
        return False
    is_whole = not any(size % 32 for size in source.shape[-2:])
    return is_whole or (rank <= 4 and max(times[-2:]) == 1)


def _repeat_pages(
    plan: PlanBuilder, held: TensorHandle, times: list[int], like: TensorSpec, was: TensorSpec | None = None
) -> TensorHandle:
    source = held.spec
    rank, is_tiled = len(source.shape), source.is_tiled
    plainly = 2 <= rank <= 4 and not (was is not None and was.dtype.is_block_float)
    copies = _list_copies(source, times, like, plainly=plainly)
    if plainly and not is_tiled and _is_short(plan, source, times, like):
        plainly, copies = False, _list_copies(source, times, like, plainly=False)
    for dim, copy in copies:
        before, held = held, TensorHandle(plan.allocate(copy), copy)
        if plainly:
            outer = dim < rank - (2 if is_tiled else 1)
            plan.launch([_compute_page_buffer(plan, before.spec, copy, is_outer=outer)], CIRCULAR)
        else:
            plan.launch(_compute_shifted_buffers(before.spec, is_last=dim == rank - 1))
        plan.replace_tensor(before, held)
    return TensorHandle(held.slot, replace(held.spec, shape=_multiply_shape(source.shape, times)))


def _list_copies(
    source: TensorSpec, times: list[int], like: TensorSpec, *, plainly: bool
) -> list[tuple[int, TensorSpec]]:
    """Return one copy per repeated dimension: for tiles the outermost first, for rows the innermost."""
    shape, numbers, is_tiled = list(source.shape), list(times), source.is_tiled
    if plainly:
        _merge_ones(shape, numbers, untouched=2 if is_tiled else 1)
    order = [d for d, number in enumerate(numbers) if number > 1]
    if not (is_tiled and plainly):
        order.reverse()
    copies, inside = [], replace(source, shard=None)
    for dim in order:
        shape[dim] *= numbers[dim]
        # All but the last copy stay where the tensor is.
        copies.append((dim, replace(like if dim == order[-1] or not plainly else inside, shape=tuple(shape))))
    return copies


def _is_short(plan: PlanBuilder, source: TensorSpec, times: list[int], like: TensorSpec) -> bool:
    """Return whether L1 is too small for the copies that go there and one page in flight."""
    copies = [copy for _, copy in _list_copies(source, times, like, plainly=True)]
    placed = (place(copy, plan.memory_map) for copy in copies if copy.memory is L1)
    return sum(one.bytes_per_bank for one in placed) + _align_page(plan, source, copies[-1]) > plan.l1_space()


def _merge_ones(shape: list[int], times: list[int], untouched: int) -> None:
    """Merge two neighbouring repeats if the outer dimension has size 1."""
    for dim in range(len(shape) - 1 - untouched):
        if shape[dim] == 1 and times[dim] > 1 and times[dim + 1] > 1:
            times[dim + 1] *= times[dim]
            times[dim] = 1


def _align_page(plan: PlanBuilder, *ends: TensorSpec) -> int:
    """Return the page bytes of the last spec, aligned for the memories of all."""
    alignment = max(plan.memory_map.page_alignment_bytes(spec.memory) for spec in ends)
    return round_up(compute_paging(ends[-1]).page_bytes, alignment)


def _compute_page_buffer(plan: PlanBuilder, before: TensorSpec, after: TensorSpec, *, is_outer: bool) -> int:
    """Return the buffer for pages: aligned for both ends in outer repeats, as stored where rows grow."""
    page = (
        _align_page(plan, before, after)
        if is_outer
        else max(compute_aligned_page_bytes(plan, one) for one in (before, after))
    )
    if before.is_tiled:
        is_block = isinstance(after.shard, Shard) and after.shard.kind == "block"
        return page if after.memory is L1 and is_outer and not is_block else _PAGES_AT_ONCE * page
    space = plan.l1_space()
    if space < page:
        plan.refuse(f"RepeatCodegen: a {page}-byte row-major CB slot does not fit in free L1")
    return min(_PAGES_AT_ONCE, max(space // (2 * page) * 2, 1)) * page


def _compute_shifted_buffers(before: TensorSpec, *, is_last: bool) -> list[int]:
    page = compute_paging(before).page_bytes
    if before.is_tiled:
        return [page + _SPARE_BYTES]
    if is_last:
        page *= next(factor for factor in (1, 2, 4, 8, 16) if page * factor % 16 == 0)
    return [page + _SPARE_BYTES] * 2


RECORDS = (
    build_record(
        format_call("repeat", [EXAMPLE_TENSOR], [1, 2, 1, 1]),
        repeat,
        Argument("repeat_dims", 0),
        verified_low_rank_and_rare_types=True,
    ),
    build_record(
        format_call("expand", [EXAMPLE_TENSOR], [1, 2, 64, 64]),
        expand,
        Argument("output_shape", 0),
        family="repeat",
        verified_low_rank_and_rare_types=True,
    ),
)
