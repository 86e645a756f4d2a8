# SPDX-License-Identifier: Apache-2.0
"""A bank or a core drawn to scale in one line of characters, with a legend; readable without colour."""

from collections.abc import Sequence

from ttmem.failures import Picture, Stretch
from ttmem.reports.kit.units import thousands

_LOOKS = {
    "reserved": (".", "░", "dim"),
    "buffers": ("#", "▓", "yellow"),
    "overlap": ("X", "X", "bold red"),
    "tensors": ("@", "█", "cyan"),
    "free": ("_", "_", "green"),
    "scattered": (":", ":", "green"),
    "l1_small": ("s", "s", "blue"),
    "beyond": (">", ">", "bold red"),
    "request": ("R", "R", "magenta"),
    "unknown": ("?", "?", ""),
}
"""Kind -> (ASCII, with block characters, colour): kinds differ by character, so that nothing is lost without colour."""

Line = tuple[tuple[str, str], ...]
"""Some characters and how they are coloured, again and again."""


def draw(picture: Picture, *, width: int, ascii_only: bool = False) -> list[Line]:
    """Title, the bar, the request below it to the same scale, and a legend with the figures."""
    cells = max(20, width - 4)
    if picture.end is None:
        scale, columns = "not to scale", [(one, cells // len(picture.stretches)) for one in picture.stretches]
    else:
        scale = f"one cell is {thousands(max(1, (picture.end - picture.start) // cells))} B"
        columns = _columns(picture.stretches, picture.start, picture.end, cells)
    bar = [(_look(stretch, ascii_only), count) for stretch, count in columns]
    lines: list[Line] = [
        ((f"{picture.title}; {scale}", ""),),
        tuple((cell * count, style) for (cell, style), count in bar),
    ]
    shown = [stretch for stretch, _ in columns]
    if picture.request is not None and picture.end is not None:
        width_bytes = picture.end - picture.start
        cell, style = _look(picture.request, ascii_only)
        wide = max(1, round(picture.request.bytes * cells / width_bytes))
        lines.append(((cell * min(wide, cells), style),))
        shown.append(picture.request)
    lines += _legend(shown, ascii_only, addresses=not picture.is_schematic)
    notes = list(picture.notes)
    if picture.is_schematic:
        notes.append("amounts are to scale; the message does not say where in the bank they are")
    return lines + [((f"({note})", "dim"),) for note in notes]


def _look(stretch: Stretch, ascii_only: bool) -> tuple[str, str]:
    is_scattered = stretch.kind == "free" and stretch.label.startswith("all other")
    plain, block, style = _LOOKS["scattered" if is_scattered else stretch.kind]
    return plain if ascii_only else block, style


def _columns(every: Sequence[Stretch], start: int, end: int, cells: int) -> list[tuple[Stretch, int]]:
    """How many cells each stretch gets: rounded at its borders, so that errors do not add up; at least one."""
    stretches = [stretch for stretch in every if stretch.bytes > 0]
    counts: list[int] = []
    for stretch in stretches:
        border = round((stretch.end - start) * cells / (end - start))
        counts.append(max(1, border - sum(counts)))
    while sum(counts) > cells and max(counts) > 1:
        counts[counts.index(max(counts))] -= 1  # tiny stretches got a cell each: the largest gives them up
    return list(zip(stretches, counts, strict=True))


def _legend(stretches: list[Stretch], ascii_only: bool, *, addresses: bool) -> list[Line]:
    """One row for all tensors whose places are known; the picture shows them, the list of what was alive names them."""
    merged: dict[tuple[str, str], list[Stretch]] = {}
    for stretch in stretches:
        is_one_of_many = addresses and stretch.kind == "tensors" and not stretch.label.startswith("tensors")
        label = "tensors, growing down" if is_one_of_many else stretch.label
        merged.setdefault((stretch.kind, label), []).append(stretch)
    totals = [sum(stretch.bytes for stretch in group) for group in merged.values()]
    amounts = [f"{thousands(total)} B" if total else "unknown" for total in totals]
    wide = max(map(len, amounts), default=0)
    lines: list[Line] = []
    for amount, ((kind, label), group) in zip(amounts, merged.items(), strict=True):
        has_place = addresses and len(group) == 1 and kind != "request"
        upper = thousands(group[-1].end) if group[-1].bytes else "?"
        place = f"  {thousands(group[0].start)} to {upper}" if has_place else ""
        cell, style = _look(group[0], ascii_only)
        lines.append(((f"{cell} {amount:>{wide}}  {label}{place}", style),))
    return lines
