# SPDX-License-Identifier: Apache-2.0
"""What each kind of edit does to a run: one function per kind, asked with the draft so far."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ttmem._errors import BadInputError
from ttmem.allocator.operations import RECORDS
from ttmem.allocator.replay import read_shard
from ttmem.hardware import BOARDS, DATA_TYPES, MEMORIES, MemoryMap, OpenSettings, open_board
from ttmem.profile import GIVEN, TensorType
from ttmem.profile import MEMORIES as MEMORY_NAMES
from ttmem.tensors import LAYOUTS, InvalidSpecError, Placement, TensorSpec, place
from ttmem.tune import edits
from ttmem.tune.draft import GONE, Change, Draft, Piece
from ttmem.tune.edits import Edit
from ttmem.tune.groups import Group, chosen, free_point
from ttmem.tune.history import History, Life

EXACT, BOUNDED = "exact", "bounded"
FIRST, LAST = "first", "last"
_OWN_MEMORY = frozenset({"matmul", "linear", "embedding", "conv2d", "max_pool2d", "scaled_dot_product_attention"})
"""Operations whose result does not follow the memory of their first input."""
_REGIONS = ("L1_SMALL", "TRACE")


@dataclass(frozen=True, slots=True)
class Applied:
    """One edit, and how certain its effect is."""

    edit: Edit
    change: Change
    groups: tuple[Group, ...]
    confidence: str
    why_bounded: str = ""
    written_over: Mapping[int, int] = field(default_factory=dict)


def apply(draft: Draft, edit: Edit) -> tuple[Draft, Applied]:
    """The draft with one more edit; what the edit means is refused where the run has no such thing."""
    if edit.kind == edits.BOARD:
        return _on_board(draft, edit)
    if edit.kind == edits.REGION:
        return _with_region(draft, edit)
    groups = chosen(draft.history, edit)
    applied = effect(draft, edit, groups)
    return draft.with_change(applied.change, applied.written_over), applied


def effect(draft: Draft, edit: Edit, groups: Sequence[Group]) -> Applied:
    """What an edit of tensors changes."""
    change: dict[int, Piece] = {}
    doubts: dict[str, None] = {}
    over: dict[int, int] = {}
    for group in groups:
        if edit.kind == edits.INPLACE:
            found, doubt = _inplace(draft, group, over), ""
        else:
            found, doubt = _KINDS[edit.kind](draft, edit, group)
        change |= found
        if doubt:
            doubts[doubt] = None
    if not change:
        raise BadInputError(f"'{edit}' changes nothing", hint=_NOTHING[edit.kind])
    return Applied(edit, change, tuple(groups), BOUNDED if doubts else EXACT, "; ".join(doubts), over)


_Found = tuple[dict[int, Piece], str]


def _free(draft: Draft, _: Edit, group: Group) -> _Found:
    change: dict[int, Piece] = {}
    for number, operation in free_point(draft.history, group).after:
        piece = draft.piece(number)
        if draft.is_shared(number):
            continue  # others lie in the same buffer
        end = (draft.history.ends[operation] if operation >= 0 else piece.take_at) + 1
        if end < piece.give_at:
            change[number] = piece._replace(give_at=end)
    return change, ""


def _inplace(draft: Draft, group: Group, over: dict[int, int]) -> dict[int, Piece]:
    """Buffers live as long as the last tensor in them; one that is freed at its last use cannot be written over."""
    change: dict[int, Piece] = {}
    for life in group.lives:
        reused = reusable_input(draft.history, life)
        if reused is None or not draft.piece(life.number).is_there or life.number in draft.written_over:
            continue
        root = draft.buffer_of(reused.number)
        while root in over:
            root = over[root]
        own, other = draft.piece(life.number), change.get(root, draft.piece(root))
        is_freed = draft.piece(reused.number).give_at < reused.given_at and reused.number not in draft.written_over
        if (is_freed and reused.number not in change) or not other.is_there:
            continue
        change[root] = other._replace(give_at=max(other.give_at, own.give_at))
        change[life.number] = GONE
        over[life.number] = root
    return change


def reusable_input(history: History, life: Life) -> Life | None:
    """The input of its producer that it could be written over: of the same type, last used there, not freed by hand."""
    known: dict[int, Life | None] = history.cache.setdefault("reusable", {})
    if life.number not in known:
        known[life.number] = _reusable(history, life)
    return known[life.number]


def _reusable(history: History, life: Life) -> Life | None:
    if life.producer < 0:
        return None
    operation = history.operations[life.producer]
    record = operation.name.removeprefix("ttnn.")
    if record not in RECORDS or RECORDS.find(record).family not in ("unary", "binary") or operation.given & 4:
        return None
    if len(history.results(operation.index)) != 1:
        return None
    for number in operation.inputs[:1]:
        other = history.lives[number]
        same = (other.type, other.memory, other.bytes_per_bank) == (life.type, life.memory, life.bytes_per_bank)
        if same and other.last_use == operation.index and other.given_inside < 0 and other.number != life.number:
            return other
    return None


def _memory(draft: Draft, edit: Edit, group: Group) -> _Found:
    memory = MEMORIES.find(edit.value)
    return _moved(draft, edit, group, lambda spec: replace(spec, memory=memory, shard=None), "memory_config")


def _dtype(draft: Draft, edit: Edit, group: Group) -> _Found:
    dtype = DATA_TYPES.find(edit.value)
    return _moved(draft, edit, group, lambda spec: replace(spec, dtype=dtype), "dtype")


def _shard(draft: Draft, edit: Edit, group: Group) -> _Found:
    shard = None if edit.value == edits.INTERLEAVED else read_shard(_shard_words(edit))
    return _moved(draft, edit, group, lambda spec: replace(spec, shard=shard), "memory_config")


def _shard_words(edit: Edit) -> dict[str, object]:
    """``height:64x512@8x8`` as ``ttmem tensor --shard`` takes it."""
    kind, _, rest = edit.value.partition(":")
    shape, _, grid = rest.partition("@")
    try:
        return {"kind": kind, "shape": [*map(int, shape.split("x"))], "grid": [*map(int, grid.split("x"))]}
    except ValueError:
        hint = "write interleaved, or a shard such as height:64x512@8x8"
        raise BadInputError(f"'{edit}' is no way to lay a tensor out", hint=hint) from None


def _moved(draft: Draft, edit: Edit, group: Group, changed: Callable[[TensorSpec], TensorSpec], option: str) -> _Found:
    """The tensors in another form, and those whose form follows theirs."""
    change: dict[int, Piece] = {}
    doubt = ""
    todo = list(group.lives)
    while todo:
        life = todo.pop()
        if life.number in change or life.type is None:
            continue
        piece = draft.piece(life.number)
        if not piece.is_there or piece.type is None:
            continue
        spec = spec_of(piece.type)
        is_sharded = piece.type.shard_bytes > 0
        if spec is None or ((spec_changed := changed(spec)) == spec and not (is_sharded and edit.kind == edits.SHARD)):
            continue
        placement = _placed(spec_changed, draft, edit)
        scaled = is_sharded and option == "dtype"
        taken = _scaled(piece, spec_changed, draft) if scaled else placement.taken_bytes_per_bank
        change[life.number] = Piece(
            MEMORY_NAMES.index(spec_changed.memory.name),
            taken,
            placement.total_bytes,
            _type_of(piece.type, spec_changed, placement, keeps_shards=scaled),
            piece.take_at,
            piece.give_at,
        )
        doubt = doubt or _doubt(draft.history, life, sharded=is_sharded)
        todo += _followers(draft.history, life, option)
    return change, doubt


def spec_of(type_: TensorType) -> TensorSpec | None:
    """As the twin writes it; sharding is not known in full, so it is left out."""
    if type_.dtype not in DATA_TYPES or not type_.layout or type_.memory not in MEMORY_NAMES:
        return None
    return TensorSpec(
        type_.shape, DATA_TYPES.find(type_.dtype), LAYOUTS.find(type_.layout), MEMORIES.find(type_.memory)
    )


def _placed(spec: TensorSpec, draft: Draft, edit: Edit) -> Placement:
    assert draft.memory_map is not None
    try:
        return place(spec, draft.memory_map)
    except InvalidSpecError as error:
        raise BadInputError(f"'{edit}': {error.message}") from None


def _scaled(piece: Piece, spec: TensorSpec, draft: Draft) -> int:
    """A sharded tensor keeps its pages; each gets another size."""
    assert draft.memory_map is not None and piece.type is not None  # noqa: PT018
    before = max(piece.type.page_bytes, 1)
    after = place(replace(spec, shard=None), draft.memory_map).paging.page_bytes
    quantum = draft.memory_map.quantum_bytes
    return -(-(piece.bytes_per_bank * after // before) // quantum) * quantum


def _type_of(type_: TensorType, spec: TensorSpec, placement: Placement, *, keeps_shards: bool) -> TensorType:
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


def _followers(history: History, life: Life, option: str) -> Iterable[Life]:
    """Results that take their form from this tensor: it is the first input, and the call does not say otherwise."""
    for index in life.uses:
        operation = history.operations[index]
        if operation.inputs[:1] != (life.number,) or operation.given & GIVEN[option]:
            continue
        if option == "memory_config" and operation.name.rpartition(".")[2] in _OWN_MEMORY:
            continue
        for result in history.results(index):
            if result.type is not None and life.type is not None and _follows(result.type, life.type, option):
                yield result


def _follows(result: TensorType, own: TensorType, option: str) -> bool:
    return result.dtype == own.dtype if option == "dtype" else result.memory == own.memory


def _doubt(history: History, life: Life, *, sharded: bool) -> str:
    """Why the promise is a bound: an operation that reads or makes the tensor may then do other things."""
    touching = [history.operations[index] for index in (*life.uses, *([life.producer] if life.producer >= 0 else []))]
    for operation in touching:
        name = operation.name.rpartition(".")[2]
        if name not in RECORDS and name not in _PLAIN:
            return f"what {operation.name} takes besides its result may change"
    return "a sharded tensor may be cut otherwise" if sharded else ""


_PLAIN = frozenset({"from_torch", "as_tensor", "to_device", "allocate_tensor_on_device", "deallocate", "to_torch"})


def _chunk(draft: Draft, edit: Edit, group: Group) -> _Found:
    """Its temporaries shrink; a part of the input and of the result is there besides while it runs."""
    history = draft.history
    if not edit.value.isdigit() or int(edit.value) < 2:
        raise BadInputError(f"'{edit}': into how many parts?", hint="write chunk:#47=4")
    parts = int(edit.value)
    change: dict[int, Piece] = {}
    quantum = history.memory_map.quantum_bytes
    added = draft.free_number()

    def part(size: int) -> int:
        return -(-size // (parts * quantum)) * quantum

    for index in dict.fromkeys(life.producer for life in group.lives if life.producer >= 0):
        first, last = history.starts[index], history.ends[index]
        inside = [
            life
            for life in history.lives[_first_taken(history, first) :]
            if life.taken_at <= last and life.given_at <= last + 1 and life.taken_at > first
        ]
        for life in inside:
            piece = draft.piece(life.number)
            change[life.number] = piece._replace(bytes_per_bank=part(piece.bytes_per_bank))
        kept = [*(history.lives[number] for number in history.operations[index].inputs[:1]), *history.results(index)]
        for life in kept:
            piece = draft.piece(life.number)
            if piece.is_there:
                size = part(piece.bytes_per_bank)
                change[added] = Piece(piece.memory, size, piece.total_bytes // parts, None, first, last + 1)
                added += 1
    return change, "a part of the input and of the result is counted as long as the operation runs"


def _first_taken(history: History, position: int) -> int:
    taken: list[int] = history.cache.setdefault("taken", [life.taken_at for life in history.lives])
    return bisect.bisect_left(taken, position)


def _order(draft: Draft, edit: Edit, group: Group) -> _Found:
    """Uploads happen before everything else, or each right before its first use."""
    if edit.value not in (FIRST, LAST):
        raise BadInputError(f"'{edit}': when?", hint=f"write ={FIRST} or ={LAST} (right before its first use)")
    history = draft.history
    change: dict[int, Piece] = {}
    for life in group.lives:
        piece = draft.piece(life.number)
        if any(index for index in life.uses[:1] if index == life.producer) or _depends(history, life):
            raise BadInputError(f"'{edit}': it is made from other tensors of the device", hint="only uploads can move")
        at = 0 if edit.value == FIRST else (history.starts[life.uses[0]] if life.uses else piece.take_at)
        if at != piece.take_at and piece.is_there:
            change[life.number] = piece._replace(take_at=at)
    return change, ""


def _depends(history: History, life: Life) -> bool:
    return life.producer >= 0 and bool(history.operations[life.producer].inputs)


def _with_region(draft: Draft, edit: Edit) -> tuple[Draft, Applied]:
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
    return _reopened(draft, opened), Applied(edit, {}, (), EXACT)


def _reopened(draft: Draft, opened: MemoryMap) -> Draft:
    pools = tuple((pool.banks, pool.base_address, pool.bytes_per_bank) for pool in opened.pools)
    return replace(draft, memory_map=opened, pools=pools)


def _on_board(draft: Draft, edit: Edit) -> tuple[Draft, Applied]:
    """Tensors spread over other banks; what programs need there is not known, so it is taken as it was."""
    board = BOARDS.find(edit.value)
    assert draft.memory_map is not None
    settings = draft.memory_map.settings
    regions = OpenSettings(l1_small_bytes=settings.l1_small_bytes, trace_region_bytes=settings.trace_region_bytes)
    opened = open_board(board, regions)
    moved = _reopened(draft, opened)
    change: dict[int, Piece] = {}
    for number in draft.numbers():
        piece = draft.piece(number)
        if piece.is_there:
            change[number] = _elsewhere(piece, draft.pools[piece.memory][0], opened)
    why = "what programs need in L1 and where shards lie is taken as it was"
    return moved.with_change(change), Applied(edit, change, (), BOUNDED, why)


def _elsewhere(piece: Piece, banks: int, opened: MemoryMap) -> Piece:
    memory = MEMORIES.find(MEMORY_NAMES[piece.memory])
    pool, quantum = opened.pool(memory), opened.quantum_bytes
    if piece.type is not None and piece.type.page_bytes:
        size = piece.type.bytes_per_bank(pool.banks, opened.page_alignment_bytes(memory))
    elif pool.banks:
        size = -(-piece.bytes_per_bank * banks // pool.banks)
    else:
        size = piece.bytes_per_bank
    return piece._replace(bytes_per_bank=max(-(-size // quantum) * quantum, quantum))


_KINDS: dict[str, Callable[[Draft, Edit, Group], _Found]] = {
    edits.FREE: _free,
    edits.MEMORY: _memory,
    edits.DTYPE: _dtype,
    edits.SHARD: _shard,
    edits.CHUNK: _chunk,
    edits.ORDER: _order,
}
_NOTHING = {
    edits.FREE: "it is given back right after its last use already",
    edits.INPLACE: "no input of its operation has the same type and is not needed afterwards",
    edits.MEMORY: "it lies there already",
    edits.DTYPE: "it has that type already",
    edits.SHARD: "it is laid out like that already",
    edits.CHUNK: "the operation takes nothing that parts would make smaller",
    edits.ORDER: "it is made then already",
}
