# SPDX-License-Identifier: Apache-2.0
"""Split and chunk: slices one after another, or equal parts at once."""

from collections.abc import Callable
from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div
from ttmem.base.errors import BadInputError
from ttmem.hardware import DRAM, L1
from ttmem.twin.operations import result_shards
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import OWN_KERNELS, copy_between, double_buffered_tiles, result_spec, spec_like
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanBuilder, TensorHandle, dimension
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.slice_ import choose_slice_spec, cut, slice_tensor
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import TensorSpec

_FEW_PARTS = 2
_MOST_PARTS = 64
"""More equal parts than this are cut from groups of this many."""


def split(call: Call, plan: PlanBuilder) -> Plan:
    """Split into parts of one size, the last one smaller, or of the given sizes."""
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
    if source.shard is not None or call.shard is not None:
        return _split_shards(call, plan, axis, sizes)
    fills = call.memory is None and _fills_l1(plan, source, len(sizes))
    like = spec_like(source, DRAM if fills else call.memory)
    if _is_split_at_once(plan, source, axis, sizes):
        return _split_at_once(plan, source, sizes, like)
    if not (source.memory is L1 and like.memory is DRAM and len(sizes) > _FEW_PARTS):
        return plan.finish_all(_cut_parts(plan, source, axis, sizes, like))
    copy = copy_between(plan, source, like)
    parts = _cut_parts(plan, like, axis, sizes, like)
    plan.free(copy)
    return plan.finish_all(parts)


def _split_shards(call: Call, plan: PlanBuilder, axis: int, sizes: list[int]) -> Plan:
    """Split shards: equal parts stay sharded; others go to DRAM, as do those that fill L1."""
    source = call.inputs[0]
    like = result_spec(call, source)
    if call.memory is None:
        shard = result_shards.choose_split_shard(source, axis, len(sizes)) if len(set(sizes)) == 1 else None
        if shard is None or _fills_l1(plan, source, len(sizes)):
            like = spec_like(source, DRAM)
        else:
            like = replace(source, shard=shard)
    if _is_split_at_once(plan, source, axis, sizes):
        return _split_at_once(plan, source, sizes, like)
    held = TensorHandle(-1, source)
    if source.memory is L1 and like.memory is DRAM and len(sizes) > _FEW_PARTS:
        held = plan.apply(to_memory_config, held, DRAM)
    if held.spec.shard is None and like.shard is None:
        parts = _cut_parts(plan, held.spec, axis, sizes, like)
    else:
        parts = _cut_sharded_parts(plan, held.spec, axis, sizes, lambda *_: like)
    plan.free(held.slot)
    return plan.finish_all(parts)


def _split_at_once(plan: PlanBuilder, source: TensorSpec, sizes: list[int], like: TensorSpec) -> Plan:
    result = replace(like, shape=(*source.shape[:-1], sizes[0]))
    slots = [plan.allocate(result) for _ in sizes]
    plan.launch(double_buffered_tiles(source))
    return plan.finish_all([(slot, result) for slot in slots])


def _is_split_at_once(plan: PlanBuilder, source: TensorSpec, axis: int, sizes: list[int]) -> bool:
    """Return whether one program writes all parts: equal parts of whole tiles along the last dimension, with a column
    of cores for each matrix and a row for each part.
    """
    rank, number, grid = len(source.shape), len(sizes), plan.memory_map.grid
    if not source.is_tiled or rank < 2 or axis != rank - 1 or len(set(sizes)) > 1:
        return False
    shape = (1, 1, *source.shape)
    outer, inner = prod(shape[:-3]), shape[-3]
    height, width = (size // 32 for size in shape[-2:])
    has_room = (outer * inner if number == _FEW_PARTS else inner) <= grid.columns and number <= grid.rows
    is_even = source.shape[-1] % 32 == 0 and width % number == 0
    return has_room and is_even and height >= 2 and width >= 2 and (number == _FEW_PARTS or outer == 1)


def _fills_l1(plan: PlanBuilder, source: TensorSpec, parts: int) -> bool:
    """Return whether the parts fill L1 by the library's estimate, which treats them as tensors on a single core."""
    if source.memory is not L1 or parts <= _FEW_PARTS:
        return False
    paging = compute_paging(source)
    page = source.tile_bytes if source.is_tiled else 1024 * source.element_bytes
    unit = page if source.is_tiled else source.element_bytes
    pieces = paging.pages if source.is_tiled else prod(paging.padded_shape)
    return pieces // parts * unit * parts + 4 * parts * page > plan.l1_space()


def _cut_parts(
    plan: PlanBuilder, source: TensorSpec, axis: int, sizes: list[int], like: TensorSpec
) -> list[tuple[int, TensorSpec]]:
    if len(sizes) > _MOST_PARTS and len(set(sizes)) == 1:
        return _cut_grouped_parts(plan, source, axis, sizes, like)
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


def _cut_grouped_parts(
    plan: PlanBuilder, source: TensorSpec, axis: int, sizes: list[int], like: TensorSpec
) -> list[tuple[int, TensorSpec]]:
    groups = [sizes[start : start + _MOST_PARTS] for start in range(0, len(sizes), _MOST_PARTS)]
    made = []
    steps = [1] * len(source.shape)
    begins, ends = [0] * len(source.shape), list(source.shape)
    for group in groups:
        ends[axis] = begins[axis] + sum(group)
        slot, part = cut(plan, source, begins, ends, steps, like)
        made += _cut_parts(plan, part, axis, group, like)
        plan.free(slot)
        begins[axis] = ends[axis]
    return made


def chunk(call: Call, plan: PlanBuilder) -> Plan:
    """Split into ``chunks`` parts or fewer: their size is rounded up."""
    source = call.inputs[0]
    axis = dimension(call.arguments["dim"], len(source.shape))
    number, size = int(call.arguments["chunks"]), source.shape[axis]
    if number < 1:
        raise BadInputError(f"{number} chunks")
    part = ceil_div(size, number)
    sizes = [min(part, size - start) for start in range(0, size, part)]
    if source.shard is None:
        return plan.finish_all(_cut_parts(plan, source, axis, sizes, source))

    def choose_spec(begins: list[int], ends: list[int]) -> TensorSpec | None:
        return source if ends[axis] - begins[axis] == size else choose_slice_spec(call, begins, ends, [1] * len(begins))

    return plan.finish_all(_cut_sharded_parts(plan, source, axis, sizes, choose_spec))


def _cut_sharded_parts(
    plan: PlanBuilder,
    source: TensorSpec,
    axis: int,
    sizes: list[int],
    choose_spec: Callable[[list[int], list[int]], TensorSpec | None],
) -> list[tuple[int, TensorSpec]]:
    """Slice one part after another, each with the spec that ``choose_spec`` returns for its bounds."""
    made, begin = list[tuple[int, TensorSpec]](), 0
    steps = [1] * len(source.shape)
    if len(sizes) > _MOST_PARTS and len(set(sizes)) == 1:
        raise NoRuleError("shards in more parts than are cut at once")
    for size in sizes:
        begins = [begin if i == axis else 0 for i in range(len(steps))]
        ends = [begin + size if i == axis else full for i, full in enumerate(source.shape)]
        like = choose_spec(begins, ends)
        if like is None:
            raise NoRuleError(OWN_KERNELS)
        if size == source.shape[axis]:
            part = plan.apply(to_memory_config, TensorHandle(-1, source), like.memory, like.shard)
        else:
            part = slice_tensor(plan, TensorHandle(-1, source), begins, ends, steps, like)
        made.append((part.slot, part.spec))
        begin += size
    return made


RECORDS = (
    build_record(
        format_call("split", [EXAMPLE_TENSOR], 32, -1),
        split,
        *(Argument("split_size", 0), Argument("dim", 1, 0)),
        verified_low_rank_and_rare_types=True,
    ),
    build_record(
        format_call("chunk", [EXAMPLE_TENSOR], 2, -1),
        chunk,
        *(Argument("chunks", 0), Argument("dim", 1)),
        family="split",
        verified_low_rank_and_rare_types=True,
        verified_with_shards=False,
    ),
)
