# SPDX-License-Identifier: Apache-2.0
"""A bank or a core drawn to scale in one line of characters, with a legend; readable without colour."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.explain import Picture, Stretch
from ttmem.reports.kit.units import thousands

_CELLS = {
    "reserved": (".", "░"),
    "buffers": ("#", "▓"),
    "overlap": ("X", "X"),
    "tensors": ("@", "█"),
    "free": ("_", "_"),
    "l1_small": ("s", "s"),
    "beyond": (">", ">"),
    "request": ("R", "R"),
    "unknown": ("?", "?"),
}
"""Kind -> (ASCII, with block characters): kinds differ by character, so that nothing is lost without colour."""
_SMALLER_FREE_BLOCKS = (":", ":")
_STYLES = {
    "reserved": "dim",
    "buffers": "yellow",
    "overlap": "bold red",
    "tensors": "cyan",
    "free": "green",
    "l1_small": "blue",
    "beyond": "bold red",
    "request": "magenta",
}


@dataclass(frozen=True, slots=True)
class Span:
    """Some characters and how they are coloured."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


def draw(picture: Picture, *, width: int, ascii_only: bool = False) -> list[Line]:
    """Title, the bar, the request below it to the same scale, and a legend with the figures."""
    cells = max(20, width - 4)
    pick = 0 if ascii_only else 1
    width_bytes = picture.end - picture.start
    lines: list[Line] = [(Span(f"{picture.title}; one cell is {thousands(max(1, width_bytes // cells))} B"),)]
    columns = _columns(picture, cells)
    lines.append(tuple(Span(_cell(stretch, pick) * count, _STYLES.get(stretch.kind, "")) for stretch, count in columns))
    if picture.request is not None:
        wide = max(1, round(picture.request.bytes * cells / width_bytes))
        lines.append((Span(_CELLS["request"][pick] * min(wide, cells), _STYLES["request"]),))
    shown = [stretch for stretch, _ in columns] + ([picture.request] if picture.request else [])
    lines += _legend(shown, pick, addresses=not picture.is_schematic)
    lines += [(Span(f"({note})", "dim"),) for note in picture.notes]
    if picture.is_schematic:
        lines.append((Span("(amounts are to scale; where in the bank they lie, the message does not say)", "dim"),))
    return lines


def _cell(stretch: Stretch, pick: int) -> str:
    return _SMALLER_FREE_BLOCKS[pick] if _is_scattered(stretch) else _CELLS[stretch.kind][pick]


def _is_scattered(stretch: Stretch) -> bool:
    return stretch.kind == "free" and stretch.label.startswith("all other")


def _columns(picture: Picture, cells: int) -> list[tuple[Stretch, int]]:
    """How many cells each stretch gets: rounded at its borders, so that errors do not add up; at least one."""
    out: list[tuple[Stretch, int]] = []
    position = 0
    for stretch in picture.stretches:
        if stretch.bytes <= 0:
            continue
        end = round((stretch.end - picture.start) * cells / (picture.end - picture.start))
        count = max(1, end - position)
        out.append((stretch, count))
        position += count
    surplus = sum(count for _, count in out) - cells
    while surplus > 0 and any(count > 1 for _, count in out):
        # Tiny stretches got a cell each: the largest gives them up.
        largest = max(range(len(out)), key=lambda index: out[index][1])
        out[largest] = (out[largest][0], out[largest][1] - 1)
        surplus -= 1
    return out


def _legend(stretches: list[Stretch], pick: int, *, addresses: bool) -> list[Line]:
    merged: dict[tuple[str, str], list[Stretch]] = {}
    for stretch in stretches:
        label = stretch.label if stretch.kind != "tensors" or not addresses else _tensor_label(stretch)
        merged.setdefault((stretch.kind, label), []).append(stretch)
    amounts = {key: f"{thousands(sum(stretch.bytes for stretch in group))} B" for key, group in merged.items()}
    wide = max((len(text) for text in amounts.values()), default=0)
    lines: list[Line] = []
    for (kind, label), group in merged.items():
        has_place = addresses and len(group) == 1 and kind != "request"
        place = f"  {thousands(group[0].start)} to {thousands(group[-1].end)}" if has_place else ""
        text = f"{_cell(group[0], pick)} {amounts[kind, label]:>{wide}}  {label}{place}"
        lines.append((Span(text, _STYLES.get(kind, "")),))
    return lines


def _tensor_label(stretch: Stretch) -> str:
    """One row for all tensors whose places are known; the picture shows them, the list of what was alive names them."""
    return stretch.label if stretch.label.startswith("tensors") else "tensors, growing down"
