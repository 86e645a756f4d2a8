# SPDX-License-Identifier: Apache-2.0
"""Apply edits to a run: one function per kind of edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.hardware import BOARDS, DATA_TYPES, MEMORIES, MemoryMap, OpenSettings, open_board
from ttmem.profile.model import GIVEN
from ttmem.profile.model import MEMORIES as MEMORY_NAMES
from ttmem.profile.tensor_type import TensorType
from ttmem.tuning import edits
from ttmem.tuning.captured_run import BufferLifetime, CapturedRun
from ttmem.tuning.chunking import OperationCut, chunk_operations
from ttmem.tuning.edited_run import (
    BOUNDED,
    EXACT,
    GONE,
    UNKNOWN,
    UNKNOWN_BECAUSE,
    AppliedEdit,
    EditedBuffer,
    EditedRun,
    read_spec,
)
from ttmem.tuning.edits import Edit
from ttmem.tuning.free_points import find_free_point
from ttmem.tuning.groups import Group, find_groups
from ttmem.twin.operations import RECORDS
from ttmem.twin.placement import Placement, place
from ttmem.twin.replay import read_shard
from ttmem.twin.tensor_spec import InvalidSpecError, TensorSpec

FIRST, LAST = "first", "last"
_OWN_MEMORY = frozenset({"matmul", "linear", "conv2d", "max_pool2d", "scaled_dot_product_attention"})
"""Operations whose result ignores the memory of their first input."""
_BY_MEMORY = frozenset({"conv1d", "conv2d", "conv_transpose2d", "max_pool2d", "avg_pool2d"})
"""Operations that slice a tensor in DRAM and shard one in L1, with other temporaries and results."""
_CREATORS = ("from_torch", "as_tensor", "zeros", "ones", "full", "empty", "allocate_tensor_on_device")
_LIKE = ("zeros_like", "ones_like", "full_like", "empty_like", "typecast", "clone", "to_layout", "embedding")
TAKES_DTYPE = frozenset({*_CREATORS, *_LIKE, "matmul", "linear", "add", "subtract", "multiply", "divide"})
"""Calls with a dtype option; others have the type of their inputs."""


def apply_edit(draft: EditedRun, edit: Edit) -> tuple[EditedRun, AppliedEdit]:
    """Apply one more edit; raise an error if the run has no such tensor or operation."""
    if edit.kind == edits.BOARD:
        return change_board(draft, edit)
    if edit.kind == edits.REGION:
        return change_region(draft, edit)
    groups = find_groups(draft.history, edit)
    applied = compute_effect(draft, edit, groups)
    return applied.apply_to(draft), applied


def compute_effect(draft: EditedRun, edit: Edit, groups: Sequence[Group]) -> AppliedEdit:
    if str(edit) in draft.refused:
        raise BadInputError(f"'{edit}' was tried: with it the script does not come as far as without")
    change: dict[int, EditedBuffer] = {}
    doubts: dict[str, None] = {}
    over: dict[int, int] = {}
    cuts: dict[int, OperationCut] = {}
    for group in groups:
        if edit.kind == edits.INPLACE:
            found, doubt = _write_in_place(draft, group, over), ""
        elif edit.kind == edits.CHUNK:
            found, doubt = chunk_operations(draft, edit, group, cuts)
        else:
            try:
                found, doubt = _KINDS[edit.kind](draft, edit, group, change)
            except BadInputError:
                if len(groups) == 1:
                    raise
                continue  # a pattern skips tensors that cannot be changed
        change |= found
        if doubt:
            doubts[doubt] = None
    if not change:
        raise BadInputError(f"'{edit}' changes nothing", hint=_NOTHING[edit.kind])
    is_unknown = any(doubt.startswith(UNKNOWN_BECAUSE) for doubt in doubts)
    confidence = UNKNOWN if is_unknown else BOUNDED if doubts else EXACT
    return AppliedEdit(edit, change, tuple(groups), confidence, "; ".join(doubts), over, cuts)


_Effect = tuple[dict[int, EditedBuffer], str]


def _free_tensors(draft: EditedRun, _: Edit, group: Group, _known: Mapping[int, EditedBuffer]) -> _Effect:
    change: dict[int, EditedBuffer] = {}
    for number, operation in find_free_point(draft.history, group).after:
        piece = draft.buffer(number)
        if draft.is_shared(number) or operation >= len(draft.history.operations):
            continue  # others share the buffer, or the run ended before
        end = (draft.history.ends[operation] if operation >= 0 else piece.take_at) + 1
        if end < piece.give_at:
            change[number] = piece._replace(give_at=end)
    return change, ""


def _write_in_place(draft: EditedRun, group: Group, over: dict[int, int]) -> dict[int, EditedBuffer]:
    """Write results over inputs. A buffer lives as long as its last tensor; one freed at its last use is excluded."""
    change: dict[int, EditedBuffer] = {}
    for life in group.lives:
        reused = find_reusable_input(draft.history, life)
        if (
            life.producer in draft.cut
            or reused is None
            or not draft.buffer(life.number).is_there
            or life.number in draft.written_over
        ):
            continue
        root = draft.buffer_of(reused.number)
        while root in over:
            root = over[root]
        own, other = draft.buffer(life.number), change.get(root, draft.buffer(root))
        if reused.number in draft.freed or not other.is_there:
            continue
        until = own.give_at if life.number in draft.freed else max(other.give_at, own.give_at)
        change[root] = other._replace(give_at=until)
        change[life.number] = GONE
        over[life.number] = root
    return change


def find_reusable_input(run: CapturedRun, life: BufferLifetime) -> BufferLifetime | None:
    """Return the input that a result could overwrite: of the same type, last used there, not freed by the script."""
    known: dict[int, BufferLifetime | None] = run.cache.setdefault("reusable", {})
    if life.number not in known:
        known[life.number] = _reusable(run, life)
    return known[life.number]


def _reusable(run: CapturedRun, life: BufferLifetime) -> BufferLifetime | None:
    if life.producer < 0:
        return None
    operation = run.operations[life.producer]
    record = operation.name.removeprefix("ttnn.")
    if record not in RECORDS or RECORDS.find(record).family not in ("unary", "binary") or operation.given & 4:
        return None
    if len(run.results(operation.index)) != 1:
        return None
    for number in operation.inputs[:1]:
        other = run.lives[number]
        same = (other.type, other.memory, other.bytes_per_bank) == (life.type, life.memory, life.bytes_per_bank)
        same &= life.type is not None and life.type.layout == "tile"  # rows are refused as a target by many
        if same and other.last_use == operation.index and other.given_inside < 0 and other.number != life.number:
            return other
    return None


def _change_memory(draft: EditedRun, edit: Edit, group: Group, known: Mapping[int, EditedBuffer]) -> _Effect:
    memory = MEMORIES.find(edit.value)
    return _change_form(
        draft, edit, group, known, lambda spec: replace(spec, memory=memory, shard=None), "memory_config"
    )


def _change_dtype(draft: EditedRun, edit: Edit, group: Group, known: Mapping[int, EditedBuffer]) -> _Effect:
    dtype = DATA_TYPES.find(edit.value)
    if any(
        _has_device_inputs(draft.history, life) and not _makes_any_type(draft.history, life) for life in group.lives
    ):
        raise BadInputError(f"'{edit}': its call takes no dtype", hint="change its inputs, or write ttnn.typecast")
    return _change_form(draft, edit, group, known, lambda spec: replace(spec, dtype=dtype), "dtype")


def _change_shards(draft: EditedRun, edit: Edit, group: Group, known: Mapping[int, EditedBuffer]) -> _Effect:
    words = parse_shard(edit)
    shard = None if words is None else read_shard(words)
    change, doubt = _change_form(draft, edit, group, known, lambda spec: replace(spec, shard=shard), "memory_config")
    if shard is not None and not all(_takes_shards(draft.history, draft.history.lives[number]) for number in change):
        doubt = doubt or f"{UNKNOWN_BECAUSE}an operation that reads it may not take shards"
    return change, doubt


def _takes_shards(run: CapturedRun, life: BufferLifetime) -> bool:
    """Return whether all operations on a tensor are elementwise: they accept and keep any form."""
    names = [run.operations[index].name.removeprefix("ttnn.") for index in life.uses]
    return all(name in RECORDS and RECORDS.find(name).family in ("unary", "binary", "clone") for name in names)


def describe_shard(edit: Edit) -> dict[str, object] | None:
    """Return the shard as in an engine's step; None if interleaved."""
    words = parse_shard(edit)
    if words is None:
        return None
    columns, rows = words.pop("grid")
    return {**words, "ranges": [[0, 0, columns - 1, rows - 1]]}


def parse_shard(edit: Edit) -> dict[str, Any] | None:
    """Parse ``height:64x512@8x8`` (as for ``ttmem tensor --shard``); None if interleaved."""
    if edit.value == edits.INTERLEAVED:
        return None
    kind, _, rest = edit.value.partition(":")
    shape, _, grid = rest.partition("@")
    try:
        return {"kind": kind, "shape": [*map(int, shape.split("x"))], "grid": [*map(int, grid.split("x"))]}
    except ValueError:
        hint = "write interleaved, or a shard such as height:64x512@8x8"
        raise BadInputError(f"'{edit}' is no memory layout", hint=hint) from None


def _change_form(
    draft: EditedRun,
    edit: Edit,
    group: Group,
    known: Mapping[int, EditedBuffer],
    changed: Callable[[TensorSpec], TensorSpec],
    option: str,
) -> _Effect:
    """Change the form of tensors and of those that follow theirs; ``known`` are done already."""
    change: dict[int, EditedBuffer] = {}
    doubt = ""
    todo = list(group.lives)
    while todo:
        life = todo.pop()
        if life.number in change or life.number in known or life.type is None:
            continue
        piece = draft.buffer(life.number)
        if not piece.is_there or piece.type is None:
            continue
        spec = read_spec(piece.type)
        is_sharded = piece.type.shard_bytes > 0
        if spec is None or ((spec_changed := changed(spec)) == spec and not (is_sharded and edit.kind == edits.SHARD)):
            continue
        if draft.cut.intersection((*life.uses, life.producer)):
            raise BadInputError(f"'{edit}': an operation that touches it runs in parts", hint="write chunk:... last")
        placement = _place(spec_changed, draft, edit)
        scaled = is_sharded and option == "dtype"
        taken = _scale_shards(piece, spec_changed, draft) if scaled else placement.taken_bytes_per_bank
        change[life.number] = EditedBuffer(
            MEMORY_NAMES.index(spec_changed.memory.name),
            taken,
            placement.total_bytes,
            _describe_type(piece.type, spec_changed, placement, keeps_shards=scaled),
            piece.take_at,
            piece.give_at,
        )
        doubt = doubt or _find_doubt(draft.history, life, option, sharded=is_sharded)
        if option == "dtype" and life in group.lives and not _makes_any_type(draft.history, life):
            doubt = doubt or f"{UNKNOWN_BECAUSE}its call may need temporary memory for another data type"
        todo += _find_followers(draft.history, life, option)
    return change, doubt


def _place(spec: TensorSpec, draft: EditedRun, edit: Edit) -> Placement:
    assert draft.memory_map is not None
    try:
        return place(spec, draft.memory_map)
    except InvalidSpecError as error:
        raise BadInputError(f"'{edit}': {error.message}") from None


def _scale_shards(piece: EditedBuffer, spec: TensorSpec, draft: EditedRun) -> int:
    """Return the bytes per bank of a sharded tensor that keeps its pages with another page size."""
    assert draft.memory_map is not None and piece.type is not None  # noqa: PT018
    before = max(piece.type.page_bytes, 1)
    after = place(replace(spec, shard=None), draft.memory_map).paging.page_bytes
    quantum = draft.memory_map.quantum_bytes
    return -(-(piece.bytes_per_bank * after // before) // quantum) * quantum


def _describe_type(type_: TensorType, spec: TensorSpec, placement: Placement, *, keeps_shards: bool) -> TensorType:
    return replace(
        type_,
        dtype=spec.dtype.name,
        memory=spec.memory.name,
        placement=type_.placement if keeps_shards else "interleaved",
        logical_bytes=spec.logical_bytes,
        padded_bytes=placement.padded_bytes,
        page_bytes=placement.paging.page_bytes,
        shard_bytes=0 if not keeps_shards else type_.shard_bytes * placement.paging.page_bytes // type_.page_bytes,
    )


def _find_followers(run: CapturedRun, life: BufferLifetime, option: str) -> Iterable[BufferLifetime]:
    """Yield results with the form of this tensor: it is the first input, and the call has no such option."""
    for index in life.uses:
        operation = run.operations[index]
        if operation.inputs[:1] != (life.number,) or operation.given & GIVEN[option]:
            continue
        if option == "memory_config" and operation.name.rpartition(".")[2] in _OWN_MEMORY:
            continue
        for result in run.results(index):
            if result.type is not None and life.type is not None and _follows(result.type, life.type, option):
                yield result


def _follows(result: TensorType, own: TensorType, option: str) -> bool:
    return result.dtype == own.dtype if option == "dtype" else result.memory == own.memory


def _find_doubt(run: CapturedRun, life: BufferLifetime, option: str, *, sharded: bool) -> str:
    """Return why the promise is a bound: an operation on the tensor may then behave differently."""
    touching = [run.operations[index] for index in (*life.uses, *([life.producer] if life.producer >= 0 else []))]
    for operation in touching:
        name = operation.name.rpartition(".")[2]
        if name in _COPIES_IF_NEEDED[option]:
            return f"{UNKNOWN_BECAUSE}{operation.name} copies only tensors that are not in that form yet"
        is_by_memory = option == "memory_config" and name in _BY_MEMORY
        if is_by_memory or (name not in RECORDS and name not in _PLAIN):
            return f"{UNKNOWN_BECAUSE}{operation.name} may need different temporary memory"
    return f"{UNKNOWN_BECAUSE}its shards may be cut in other ways" if sharded else ""


def _makes_any_type(run: CapturedRun, life: BufferLifetime) -> bool:
    """Return whether the call needs no temporary memory for any data type (``rand`` does)."""
    name = run.operations[life.producer].name.rpartition(".")[2] if life.producer >= 0 else ""
    return name in TAKES_DTYPE or name == "to_device"


_COPIES_IF_NEEDED = {
    "memory_config": frozenset({"to_memory_config", "move", "reallocate", "sharded_to_interleaved", "reshard"}),
    "dtype": frozenset({"typecast", "to_dtype"}),
}
"""Option -> calls that return their input if it has the requested form, and copy it otherwise."""
_PLAIN = frozenset({"from_torch", "as_tensor", "to_device", "allocate_tensor_on_device", "deallocate", "to_torch"})


def _change_order(draft: EditedRun, edit: Edit, group: Group, _known: Mapping[int, EditedBuffer]) -> _Effect:
    if edit.value not in (FIRST, LAST):
        raise BadInputError(f"'{edit}': when?", hint=f"write ={FIRST} or ={LAST} (right before its first use)")
    run = draft.history
    change: dict[int, EditedBuffer] = {}
    for life in group.lives:
        piece = draft.buffer(life.number)
        if any(index for index in life.uses[:1] if index == life.producer) or _has_device_inputs(run, life):
            raise BadInputError(f"'{edit}': it is made from other tensors of the device", hint="only uploads can move")
        at = 0 if edit.value == FIRST else (run.starts[life.uses[0]] if life.uses else piece.take_at)
        if at != piece.take_at and piece.is_there:
            change[life.number] = piece._replace(take_at=at)
    return change, ""


def _has_device_inputs(run: CapturedRun, life: BufferLifetime) -> bool:
    return life.producer >= 0 and bool(run.operations[life.producer].inputs)


_KINDS: dict[str, Callable[[EditedRun, Edit, Group, Mapping[int, EditedBuffer]], _Effect]] = {
    edits.FREE: _free_tensors,
    edits.MEMORY: _change_memory,
    edits.DTYPE: _change_dtype,
    edits.SHARD: _change_shards,
    edits.ORDER: _change_order,
}
_NOTHING = {
    edits.FREE: "it is given back right after its last use already",
    edits.INPLACE: "no input of its operation has the same type and is not needed afterwards",
    edits.MEMORY: "it is there already",
    edits.DTYPE: "it has that type already",
    edits.SHARD: "it is laid out like that already",
    edits.CHUNK: "the operation takes nothing that parts would make smaller",
    edits.ORDER: "it is made then already",
}


_REGIONS = ("L1_SMALL", "TRACE")


def change_region(draft: EditedRun, edit: Edit) -> tuple[EditedRun, AppliedEdit]:
    name = edit.target.upper()
    if name not in _REGIONS or not edit.value.isdigit():
        raise BadInputError(f"'{edit}' is no region", hint="write region:L1_SMALL=0 or region:TRACE=0, in bytes")
    assert draft.memory_map is not None
    settings = draft.memory_map.settings
    size = int(edit.value)
    settings = (
        replace(settings, l1_small_bytes=size) if name == "L1_SMALL" else replace(settings, trace_region_bytes=size)
    )
    opened = open_board(draft.memory_map.board_name, settings)
    return _reopen(draft, opened), AppliedEdit(edit, {}, (), EXACT)


def _reopen(draft: EditedRun, opened: MemoryMap) -> EditedRun:
    pools = tuple((pool.banks, pool.base_address, pool.bytes_per_bank) for pool in opened.pools)
    return replace(draft, memory_map=opened, pools=pools)


def change_board(draft: EditedRun, edit: Edit) -> tuple[EditedRun, AppliedEdit]:
    """Spread tensors over another board's banks; the needs of programs there are unknown, so they stay."""
    board = BOARDS.find(edit.value)
    assert draft.memory_map is not None
    settings = draft.memory_map.settings
    regions = OpenSettings(l1_small_bytes=settings.l1_small_bytes, trace_region_bytes=settings.trace_region_bytes)
    opened = open_board(board, regions)
    moved = _reopen(draft, opened)
    change: dict[int, EditedBuffer] = {}
    for number in draft.numbers():
        piece = draft.buffer(number)
        if piece.is_there:
            change[number] = _move_to_banks(piece, draft.pools[piece.memory][0], opened)
    unclear = next((one for one in map(draft.buffer, draft.numbers()) if one.is_there and _is_unclear(one)), None)
    if unclear is not None:
        why = "not bounded: temporary memory and shards are taken as they were"
        return moved.add_change(change), AppliedEdit(edit, change, (), UNKNOWN, why)
    why = "what programs need in L1 is taken as it was"
    return moved.add_change(change), AppliedEdit(edit, change, (), BOUNDED, why)


def _is_unclear(piece: EditedBuffer) -> bool:
    """Return whether another board may have another temporary, or shard a tensor differently."""
    return piece.type is None or piece.type.shard_bytes > 0


def _move_to_banks(piece: EditedBuffer, banks: int, opened: MemoryMap) -> EditedBuffer:
    memory = MEMORIES.find(MEMORY_NAMES[piece.memory])
    pool, quantum = opened.pool(memory), opened.quantum_bytes
    if piece.type is not None and piece.type.page_bytes:
        size = piece.type.bytes_per_bank(pool.banks, opened.page_alignment_bytes(memory))
    elif pool.banks:
        size = -(-piece.bytes_per_bank * banks // pool.banks)
    else:
        size = piece.bytes_per_bank
    return piece._replace(bytes_per_bank=max(-(-size // quantum) * quantum, quantum))
