# SPDX-License-Identifier: Apache-2.0
"""Savings of remedies for the figures of one failure, calculated with the twin's arithmetic.

Each computation answers None where the message does not carry what it needs: a saving that is printed is one that the
twin would show. Where several tensors explain the figures, the one that saves least counts.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ttmem.base.arithmetic import round_up
from ttmem.failures.diagnosis.failure_state import LiveTensor, Situation
from ttmem.failures.diagnosis.tensor_guess import CERTAIN, TILED, format_shape, is_even_split
from ttmem.hardware import DATA_TYPES, MEMORIES, DataType, open_board
from ttmem.twin.padding import explain_padding
from ttmem.twin.placement import compute_interleaved_bytes_per_bank, compute_paging
from ttmem.twin.tensor_spec import LAYOUTS, InvalidSpecError, TensorSpec

_CHIP_COUNTS = (2, 4, 8, 32)
_FEWEST_PAGES_PER_BANK = 64
_TILE_PAGES = tuple(dtype.tile_bytes() for dtype in TILED)
_MOST_PARTS = 64
_TILE_ROWS = 32
_THIN = 32
_ARRANGED = {"row_major": "row-major", "permute": "permuted to", "reshape": "reshaped to"}


@dataclass(frozen=True, slots=True)
class Saving:
    """Bytes of every bank (of every core for static buffers), and whether they are enough by themselves."""

    bytes_per_bank: int
    solves: bool | None
    names: Mapping[str, int | str] = field(default_factory=dict, hash=False)
    """What the texts of the remedy may use: ``parts``, ``after_bytes_per_bank``, ``which``."""


def fits_free_block(situation: Situation, need_bytes_per_bank: int) -> bool | None:
    """True when a buffer of this share would have fitted the largest free block; None where none is printed."""
    largest_free, bank_bytes = situation.number("largest_free"), situation.number("bank_bytes")
    taken = round_up(need_bytes_per_bank, situation.quantum_bytes)
    if largest_free is not None:
        return taken <= largest_free
    bank_bytes = situation.number("largest_bank_bytes") if bank_bytes is None else bank_bytes
    return False if bank_bytes is not None and taken > bank_bytes else None


def room_solves(situation: Situation, gained_bytes_per_bank: int) -> bool | None:
    """Tell whether more free space is enough: False when the sum is too small, else None (it may be in pieces)."""
    need, free = situation.number("bytes_per_bank"), situation.number("free")
    is_short = need is not None and free is not None and free + gained_bytes_per_bank < need
    return False if is_short else None


def free_tensors(situation: Situation, removed: Sequence[LiveTensor]) -> bool | None:
    """Tell whether the request fits after these tensors are freed.

    A tensor is one piece of every bank, so one that is large enough makes room for sure; where addresses are known,
    the free blocks next to it count too.
    """
    need, free = situation.number("bytes_per_bank"), situation.number("free")
    if need is None:
        return None
    wanted = round_up(need, situation.quantum_bytes)
    if free is not None and free + sum(tensor.bytes_per_bank for tensor in removed) < need:
        return False
    if max((tensor.bytes_per_bank for tensor in removed), default=0) >= wanted:
        return True
    return True if _largest_gap(situation, removed) >= wanted else None


def _largest_gap(situation: Situation, removed: Sequence[LiveTensor]) -> int:
    """The largest stretch between two remaining tensors once others are freed; 0 where addresses are not known."""
    if any(tensor.address is None for tensor in situation.live):
        return 0
    kept = [(at, tensor) for at, tensor in situation.list_placed() if tensor not in removed]
    ends = [at + tensor.bytes_per_bank for at, tensor in kept]
    return max((at - end for end, (at, _) in zip(ends, kept[1:], strict=False)), default=0)


def region_solves(situation: Situation, gained_bytes_per_core: int) -> bool | None:
    """Tell whether static buffers that shrink by these bytes (or a ceiling that rises) end the clash or overflow."""
    missing = situation.number("overlap_bytes" if "overlap_bytes" in situation.names else "excess_bytes")
    return None if missing is None else gained_bytes_per_core >= missing


def _retype(situation: Situation, dtype_name: str) -> Saving | None:
    tensor, dtype = situation.tensor, DATA_TYPES.find(dtype_name)
    if tensor is None or tensor.layout != "tile" or tensor.dtype is None or not tensor.pages:
        return None
    if not _is_lighter(dtype, DATA_TYPES.find(tensor.dtype)):
        return None
    saving = _smaller_request(situation, [(tensor.pages, dtype.tile_bytes())])
    return saving if saving is None or tensor.has_dtype else _withdraw_promise(saving)


def _withdraw_promise(saving: Saving) -> Saving:
    """Return the saving without the promise that it is enough: it rests on a guess."""
    return replace(saving, solves=None if saving.solves else saving.solves)


def _is_lighter(dtype: DataType, now: DataType) -> bool:
    """True when a tensor can have a smaller format; integers cannot be rounded."""
    return now.is_float and dtype.tile_bytes() < now.tile_bytes()


def _split_request(situation: Situation, counts: Sequence[int]) -> Saving | None:
    """Split into the fewest parts that each fit, or, without a printed free block, that an empty bank could take."""
    pages, need = _pages(situation), situation.number("bytes_per_bank")
    largest = situation.number("largest_free")
    for name in ("bank_bytes", "largest_bank_bytes"):
        largest = situation.number(name) if largest is None else largest
    if not pages or not need or not largest or max(page for _, page in pages) > largest:
        return None
    fewest = min(count for count, _ in pages)
    for parts in counts[bisect_left(counts, need // largest) :]:  # fewer parts cannot be small enough
        if parts > fewest:
            return None
        cut = [(-(-count // parts), page) for count, page in pages]
        saving = _smaller_request(situation, cut, parts=parts)
        if saving is not None and saving.solves is not False:
            return replace(saving, solves=None)  # one part fits; whether all do depends on what is freed in between
    return None


def _last_rows(situation: Situation, _: str) -> Saving | None:
    """Logits of the last token alone: one row, or one row of tiles."""
    tensor = situation.tensor
    if tensor is None or not tensor.is_logits or not tensor.shape or not tensor.page_bytes:
        return None
    pages = 1 if tensor.layout == "row_major" else round_up(tensor.shape[-1], _TILE_ROWS) // _TILE_ROWS
    saving = _smaller_request(situation, [(pages, tensor.page_bytes)])
    return saving if saving is None or tensor.confidence == CERTAIN else _withdraw_promise(saving)


def _elsewhere(situation: Situation, _: str) -> Saving | None:
    """The buffer goes to another memory: all of it is saved here, if it is the operation's result and no buffer of its
    own."""
    need = situation.number("bytes_per_bank")
    solves = True if "places_result" in situation.names else None
    return None if need is None else Saving(need, solves, {"after_bytes_per_bank": 0})


def _all_cores(situation: Situation, _: str) -> Saving | None:
    """A shard per core of the whole grid instead of a few large ones: each bank loses less, in lock step."""
    cores, banks = situation.number("grid_cores"), situation.number("banks")
    pages = _pages(situation)
    if not pages or cores is None or banks is None or banks >= cores:
        return None
    saving = _smaller_request(situation, pages, banks=cores)
    return saving if saving is not None and saving.bytes_per_bank > 0 else None


def _rearrange(situation: Situation, _: str) -> Saving | None:
    """The best other arrangement of a tensor that is certain; rows only where they are not thin (errors 9)."""
    tensor, board = situation.tensor, situation.board
    if tensor is None or tensor.confidence != CERTAIN or not board.boards or tensor.shape is None:
        return None
    memory_map = open_board(board.boards[0])
    spec = TensorSpec(
        tensor.shape,
        DATA_TYPES.find(tensor.dtype or ""),
        LAYOUTS.find(tensor.layout or ""),
        MEMORIES.find(situation.failure.memory or "DRAM"),
    )
    if memory_map.pool(spec.memory).banks != situation.number("banks"):
        return None
    for other in explain_padding(spec, memory_map).alternatives:
        if other.how == "row_major" and other.spec.shape[-1] < _THIN:
            continue
        which = f"{_ARRANGED[other.how]} {format_shape(other.spec.shape)}"
        return _shrink(situation, other.bytes_per_bank, which=which)
    return None


def _lighter_weights(situation: Situation, dtype_name: str) -> Saving | None:
    """Retype the live weights in tiles."""
    dtype = DATA_TYPES.find(dtype_name)
    weights = [tensor for tensor in situation.live if tensor.is_weight]
    saved = sum(_save_by_retyping(tensor, dtype, situation) for tensor in weights)
    return Saving(saved, room_solves(situation, saved), {"weights": len(weights)}) if saved > 0 else None


def _save_by_retyping(tensor: LiveTensor, dtype: DataType, situation: Situation) -> int:
    now = DATA_TYPES.get(tensor.dtype)
    banks = situation.number("dram_banks") or situation.number("banks")
    if not banks or now is None or tensor.layout != "tile" or not _is_lighter(dtype, now):
        return 0
    try:
        pages = compute_paging(TensorSpec(tensor.shape, dtype)).pages
    except InvalidSpecError:
        return 0
    return max(0, tensor.bytes_per_bank - _share(situation, pages, dtype.tile_bytes(), banks))


def _idle_tensors(situation: Situation, _: str) -> Saving | None:
    idle = [tensor for tensor in situation.live if tensor.is_idle]
    saved = sum(tensor.bytes_per_bank for tensor in idle)
    if not saved:
        return None
    largest = max(idle, key=lambda tensor: tensor.bytes_per_bank)
    return Saving(saved, free_tensors(situation, idle), {"idle": len(idle), "which": largest.name})


def _free_repeated(situation: Situation, _: str) -> Saving | None:
    """Free tensors of earlier turns of a loop that the failing operation does not read."""
    repeated = situation.find_repeated()
    if not repeated:
        return None
    saved = sum(tensor.bytes_per_bank for tensor in repeated)
    names: dict[str, int | str] = {
        "count": len(repeated),
        "which": repeated[0].name,
        "made": _describe_producer(repeated[0]),
    }
    return Saving(saved, free_tensors(situation, repeated), names)


def _describe_producer(tensor: LiveTensor) -> str:
    """Name the operation that made it, and its location."""
    place = f" at {tensor.location}" if tensor.location else f" in line {tensor.line}" if tensor.line else ""
    return f" of {tensor.producer}{place}" if tensor.producer else ""


def _one_live_tensor(situation: Situation, _: str) -> Saving | None:
    """The smallest tensor whose going is enough by itself, else the largest.

    Weights stay, and in DRAM the operation's own inputs: there is nowhere else to read them from.
    """
    stays = situation.failure.memory == "DRAM"
    candidates = [
        tensor
        for tensor in situation.live
        if tensor.bytes_per_bank and not (tensor.is_weight or tensor.is_output or (stays and tensor.is_input))
    ]
    if not candidates:
        return None
    enough = [tensor for tensor in candidates if free_tensors(situation, [tensor])]
    chosen = min(enough or candidates, key=lambda tensor: tensor.bytes_per_bank if enough else -tensor.bytes_per_bank)
    return Saving(
        chosen.bytes_per_bank,
        free_tensors(situation, [chosen]),
        {"which": chosen.name, "made": _describe_producer(chosen)},
    )


def _lowest_tensors(situation: Situation, _: str) -> Saving | None:
    """Move the lowest tensors out of L1 until the program can run, where addresses are known.

    The operation's own result is not there before it: with others gone it is allocated further up.
    """
    end, lowest, placed = _find_blocking(situation)
    own = [tensor for address, tensor in placed if tensor.is_output and address < end]
    others = [(address, tensor) for address, tensor in placed if not tensor.is_output]
    top = situation.number("l1_bytes_per_core")
    if not others or top is None:
        return None
    if not own:
        inside = [tensor for address, tensor in others if address < end]
        top = next((address for address, _ in others if address >= end), top)
        return Saving(top - lowest, True, _list_names(inside))
    leaving: list[LiveTensor] = []
    for _address, tensor in others:
        leaving.append(tensor)
        lifted = sum(tensor.bytes_per_bank for tensor in leaving)
        if lifted >= end - lowest:
            return Saving(lifted, True, _list_names(leaving))
    return None


def _list_names(tensors: Sequence[LiveTensor]) -> dict[str, int | str]:
    more = f" and {len(tensors) - 1} more" if len(tensors) > 1 else ""
    return {"tensors": len(tensors), "which": f"'{tensors[0].name}'{more}"}


def _own_output(situation: Situation, _: str) -> Saving | None:
    """The operation's own result in another memory: it is the lowest tensor in L1."""
    end, lowest, placed = _find_blocking(situation)
    top = situation.number("l1_bytes_per_core")
    if not placed or not placed[0][1].is_output or top is None:
        return None
    next_lowest = next((address for address, tensor in placed if not tensor.is_output), top)
    return Saving(next_lowest - lowest, next_lowest >= end, {"next_lowest": next_lowest})


def _find_blocking(situation: Situation) -> tuple[int, int, list[tuple[int, LiveTensor]]]:
    """Return the end of a program's buffers, the lowest tensor's address, and all tensors; none where they disagree."""
    end, lowest = situation.number("region_end"), situation.number("l1_buffer_address")
    placed = situation.list_placed()
    if not placed or end is None or lowest is None or placed[0][0] != lowest:
        return 0, 0, []
    return end, lowest, placed


def _narrower_rows(situation: Situation, _: str) -> Saving | None:
    """Static buffers that hold whole rows shrink with the row; the base that makes this hardest counts."""
    end, l1_bytes, base = (situation.number(name) for name in ("region_end", "l1_bytes", "worst_l1_base"))
    if end is None or l1_bytes is None or base is None or base >= l1_bytes:
        return None
    parts = -(-(end - base) // (l1_bytes - base))
    after = base + -(-(end - base) // parts)
    return Saving(end - after, region_solves(situation, end - after), {"parts": parts})


COMPUTATIONS: dict[str, Callable[[Situation, str], Saving | None]] = {
    "retype": _retype,
    "split": lambda situation, _: _split_request(situation, range(2, _MOST_PARTS)),
    "chips": lambda situation, _: _split_request(situation, _CHIP_COUNTS),
    "last-rows": _last_rows,
    "elsewhere": _elsewhere,
    "all-cores": _all_cores,
    "padding": _rearrange,
    "weights": _lighter_weights,
    "idle-tensors": _idle_tensors,
    "one-live-tensor": _one_live_tensor,
    "lowest-tensors": _lowest_tensors,
    "own-output": _own_output,
    "repeated-tensors": _free_repeated,
    "narrower-rows": _narrower_rows,
}
"""By the word that ``computes`` uses; what follows a colon is the argument: ``retype:bfloat8_b``."""


def compute(instruction: str, situation: Situation) -> Saving | None:
    """The saving that a remedy's ``computes`` asks for."""
    name, _, argument = instruction.partition(":")
    return COMPUTATIONS[name](situation, argument)


def _pages(situation: Situation) -> list[tuple[int, int]]:
    """(pages, bytes of a page) of every tensor that the figures allow.

    Where the total divides evenly any page would do; then tiles count, and pages of which a bank holds 64 or more: that
    leaves out only tensors of a few gigantic rows.
    """
    tensor, total = situation.tensor, situation.number("requested_bytes")
    if tensor is None or not total:
        return []
    if tensor.confidence == CERTAIN and tensor.page_bytes:
        return [(total // tensor.page_bytes, tensor.page_bytes)]
    banks, share = situation.number("banks") or 0, situation.number("bytes_per_bank") or 0
    candidates = set(tensor.page_candidates)
    if is_even_split(total, banks, share):
        candidates = {page for page in candidates if page * _FEWEST_PAGES_PER_BANK <= share or page in _TILE_PAGES}
    if tensor.page_bytes:
        candidates.add(tensor.page_bytes)
    return [(total // page, page) for page in sorted(candidates)]


def _smaller_request(
    situation: Situation, pages: Iterable[tuple[int, int]], *, banks: int | None = None, **names: int
) -> Saving | None:
    """The same buffer with fewer or smaller pages; the largest of the candidates counts."""
    dealt = banks or situation.number("banks")
    if not dealt:
        return None
    return _shrink(situation, max(_share(situation, count, page, dealt) for count, page in pages), **names)


def _share(situation: Situation, pages: int, page_bytes: int, banks: int) -> int:
    return compute_interleaved_bytes_per_bank(
        pages=pages, page_bytes=page_bytes, alignment_bytes=situation.alignment_bytes, banks=banks
    )


def _shrink(situation: Situation, after: int, **names: int | str) -> Saving | None:
    """The request, once its share of a bank is so large."""
    need = situation.number("bytes_per_bank")
    if need is None:
        return None
    return Saving(need - after, fits_free_block(situation, after), {"after_bytes_per_bank": after, **names})
