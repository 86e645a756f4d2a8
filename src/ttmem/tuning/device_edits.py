# SPDX-License-Identifier: Apache-2.0
"""Edits that change no call: the device is opened otherwise, or another board is."""

from __future__ import annotations

from dataclasses import replace

from ttmem.base.errors import BadInputError
from ttmem.hardware import BOARDS, MEMORIES, MemoryMap, OpenSettings, open_board
from ttmem.profile.model import MEMORIES as MEMORY_NAMES
from ttmem.tuning.edited_run import BOUNDED, EXACT, UNKNOWN, Applied
from ttmem.tuning.edited_run import Draft, Piece
from ttmem.tuning.edits import Edit

_REGIONS = ("L1_SMALL", "TRACE")


def with_region(draft: Draft, edit: Edit) -> tuple[Draft, Applied]:
    """The device is opened with another region."""
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


def on_board(draft: Draft, edit: Edit) -> tuple[Draft, Applied]:
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
    unclear = next((one for one in map(draft.piece, draft.numbers()) if one.is_there and _is_unclear(one)), None)
    if unclear is not None:
        why = "not bounded: temporary memory and shards are taken as they were"
        return moved.with_change(change), Applied(edit, change, (), UNKNOWN, why)
    why = "what programs need in L1 is taken as it was"
    return moved.with_change(change), Applied(edit, change, (), BOUNDED, why)


def _is_unclear(piece: Piece) -> bool:
    """Another board may have another temporary, or cut a tensor otherwise."""
    return piece.type is None or piece.type.shard_bytes > 0


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
