# SPDX-License-Identifier: Apache-2.0
"""Diagram of a bank when a request did not fit: stretches of addresses or of bytes, to be drawn to scale."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ttmem.failures.diagnosis.failure_state import LiveTensor, Situation

RESERVED, BUFFERS, OVERLAP, BEYOND = "reserved", "buffers", "overlap", "beyond"
TENSORS, FREE, SMALL, REQUEST = "tensors", "free", "l1_small", "request"
UNKNOWN = "unknown"
"""Of a stretch whose content, or whose end, is not known."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run of bytes of one kind."""

    kind: str
    start: int
    end: int
    label: str

    @property
    def bytes(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Picture:
    """A bank or core from its lowest address up, and the request that did not fit."""

    title: str
    end: int | None
    """Where the drawing ends: the size of the bank or core, or of what needed more. None: unknown, and only the order
    of the stretches is drawn, without a scale."""
    stretches: tuple[Stretch, ...]
    request: Stretch | None = None
    is_schematic: bool = False
    """Amounts are to scale, but the message does not say where in the bank they are."""
    notes: tuple[str, ...] = ()
    start: int = 0
    """The address at the left end of the drawing."""


def draw_picture(situation: Situation) -> Picture | None:
    """The picture of a failure whose figures allow one."""
    numbers = situation.failure.numbers
    if "region_end" in numbers:
        return _static_buffers(situation)
    return _bank(situation) if numbers.keys() >= {"bank_bytes", "bytes_per_bank"} else None


def _static_buffers(situation: Situation) -> Picture | None:
    """L1 of one core: static buffers grow up from the base, tensors grow down from the top."""
    base, end = situation.number("l1_base"), situation.number("region_end")
    top = situation.number("l1_bytes") or situation.number("l1_bytes_per_core")
    lowest = situation.number("l1_buffer_address")
    if end is None or (top is None and lowest is None):
        return None
    family = situation.failure.texts.get("buffer_family", "circular")
    stretches: list[Stretch] = []
    notes: list[str] = []
    start = base if base is not None and base < end else 0
    if start:
        stretches.append(Stretch(RESERVED, 0, start, "firmware and kernels"))
        if situation.number("l1_base_error"):
            notes.append(f"the L1 base moves with the release; {start:,} is drawn")
    if top is None:
        return _draw_unscaled(family, lowest or 0, end)
    border = min(end, top) if lowest is None else max(lowest, start)
    stretches.append(Stretch(BUFFERS, start, border, f"{family} buffers, growing up"))
    if lowest is None:
        stretches.append(Stretch(BEYOND, border, end, "beyond the end of L1"))
    else:
        stretches.append(Stretch(OVERLAP, border, end, "wanted by both"))
        small = situation.number("l1_small_bytes") or situation.number("setting_l1_small_size") or 0
        placed = situation.list_placed()
        if placed and placed[0][0] == lowest:
            stretches += _lay_out(placed, end, top - small)
        else:
            stretches.append(Stretch(TENSORS, end, max(top - small, end), "tensors and free blocks, growing down"))
        if small:
            stretches.append(Stretch(SMALL, top - small, top, "L1_SMALL"))
    whole = max(top, end) if lowest is None else top
    return Picture(f"L1 of one core, {top:,} B", whole, tuple(stretches), notes=tuple(notes))


def _draw_unscaled(family: str, lowest: int, end: int) -> Picture:
    """A clash on an unnamed chip: the order is known, and the overlap; where L1 ends is not."""
    stretches = (
        Stretch(BUFFERS, 0, lowest, f"what is reserved and {family} buffers, growing up"),
        Stretch(OVERLAP, lowest, end, "wanted by both"),
        Stretch(UNKNOWN, end, end, "tensors and free blocks up to the end of L1"),
    )
    notes = ("not to scale: the text does not say which chip, so where L1 ends is unknown (--board names it)",)
    return Picture("L1 of one core, size unknown", None, stretches, notes=notes)


def _lay_out(placed: Sequence[tuple[int, LiveTensor]], start: int, end: int) -> Iterator[Stretch]:
    """Tensors and the free blocks between them, from one address to another."""
    position = start
    for address, tensor in placed:
        if address > position:
            yield Stretch(FREE, position, address, "free block")
        first, position = max(address, position), max(position, address + tensor.bytes_per_bank)
        if position > first:
            yield Stretch(TENSORS, first, position, tensor.name)
    if position < end:
        yield Stretch(FREE, position, end, "free block")


def _find_known_layout(situation: Situation) -> tuple[Stretch, ...]:
    """The bank as it was, where a capture knows every address and they add up to what the message says."""
    numbers, memory = situation.failure.numbers, situation.failure.memory
    placed = situation.list_placed()
    whole = situation.number("l1_bytes_per_core" if memory == "L1" else "dram_bytes_per_bank")
    if not placed or whole is None or memory not in ("DRAM", "L1"):
        return ()
    small = situation.number("l1_small_bytes") or 0 if memory == "L1" else 0
    base, top = whole - small - numbers["bank_bytes"], whole - small
    taken = sum(tensor.bytes_per_bank for _, tensor in placed)
    inside = base <= placed[0][0] and placed[-1][0] + placed[-1][1].bytes_per_bank <= top
    if taken != numbers.get("allocated") or not inside:
        return ()
    return tuple(_lay_out(placed, base, top))


def _bank(situation: Situation) -> Picture:
    numbers = situation.failure.numbers
    bank, need = numbers["bank_bytes"], numbers["bytes_per_bank"]
    memory = situation.failure.memory or "memory"
    request = Stretch(REQUEST, 0, need, "the request, in one piece")
    if known := _find_known_layout(situation):
        end = max(known[-1].end, known[0].start + need)
        return Picture(f"one {memory} bank, {bank:,} B", end, known, request, start=known[0].start)
    stretches = [Stretch(UNKNOWN, 0, bank, "the message does not say what was allocated")]
    if (allocated := numbers.get("allocated")) is not None:
        stretches = [Stretch(TENSORS, 0, allocated, "allocated")]
        largest = numbers.get("largest_free")
        block_end = bank if largest is None else min(allocated + largest, bank)
        if block_end != allocated:
            label = "free; the message does not say in what pieces" if largest is None else "the largest free block"
            stretches.append(Stretch(FREE, allocated, block_end, label))
        if block_end < bank:
            stretches.append(Stretch(FREE, block_end, bank, "all other free blocks together"))
    return Picture(f"one {memory} bank, {bank:,} B", max(bank, need), tuple(stretches), request, True)
