# SPDX-License-Identifier: Apache-2.0
"""Limits of operators: a table "maximum supported sizes per operator", and the frontier as a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log2
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from ttmem.reports.sweep.page import Section, render_page
from ttmem.reports.sweep.words import columns, readable, shape_list

if TYPE_CHECKING:
    from ttmem.sweep.frontier import Frontier, Limit

_HEADS = ("OPERATOR", "BOARD", "MEMORY", "LAYOUT", "LARGEST THAT PASSES", "INPUTS", "FAILS AT", "STATUS", "CONFIDENCE")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 860, 420, 70, 46, 20, 210
_COLORS = ("#2563c9", "#0f8a6d", "#b26a00", "#c42b32", "#7a4fc9", "#008aa6", "#8a6d0f", "#c92591")
NOTE = (
    "Found by doubling one dimension until it fails and bisecting: the shape passes alone on an empty device, one more "
    "along the grown dimension does not. The residents of a model leave less."
)


def _row(limit: Limit) -> tuple[str, ...]:
    return (
        limit.op,
        limit.board,
        limit.memory,
        limit.layout,
        shape_list(limit.shape) if limit.shape else "none",
        readable(limit.padded_bytes),
        shape_list(limit.fails_at) if limit.fails_at else "-",
        limit.status if limit.status != "none" else "no limit found",
        limit.confidence,
    )


def text(frontiers: Sequence[Frontier]) -> str:
    """Maximum supported sizes per operator, then the frontier of each where it has one."""
    parts = [columns(_HEADS, [_row(one.largest) for one in frontiers])]
    for one in frontiers:
        if len(one.limits) > 1:
            rows = [
                (str(limit.shape[-1] if limit.shape else "-"), shape_list(limit.shape) if limit.shape else "none",
                 readable(limit.padded_bytes), limit.status)
                for limit in one.limits
            ]  # fmt: skip
            parts.append(
                f"{one.op} {one.board} {one.memory} {one.layout}\n"
                + columns(("WIDTH", "LARGEST THAT PASSES", "INPUTS", "THEN"), rows)
            )
    return "\n\n".join([*parts, NOTE])


def markdown(frontiers: Sequence[Frontier]) -> str:
    """The table alone, for documentation."""
    from ttmem.reports.sweep.words import table

    sizes = table([head.capitalize() for head in _HEADS], [_row(one.largest) for one in frontiers])
    return f"# Maximum supported sizes per operator\n\n{sizes}\n\n{NOTE}\n"


def document(frontiers: Sequence[Frontier]) -> dict[str, Any]:
    """For machines: ``limits`` has the largest of each, ``frontier`` all widths."""
    return {
        "limits": [
            {**one.largest.to_json(), "frontier": [limit.to_json() for limit in one.limits]} for one in frontiers
        ],
        "note": NOTE,
    }


def page(frontiers: Sequence[Frontier]) -> str:
    """One offline page."""
    all_rows = [_row(limit) for one in frontiers for limit in one.limits]
    sections = [
        Section("limits", "Maximum supported sizes per operator", [head.capitalize() for head in _HEADS],
                [_row(one.largest) for one in frontiers], frozenset({5})),
        Section("frontier", "Frontier: rows that pass, by width", drawing=svg(frontiers)),
        Section("widths", "Every width", [head.capitalize() for head in _HEADS], all_rows, frozenset({5})),
    ]  # fmt: skip
    names = ", ".join(dict.fromkeys(one.op for one in frontiers))
    return render_page(title="Limits of operators", subtitle=names, sections=sections, foot=NOTE)


def svg(frontiers: Sequence[Frontier]) -> str:
    """Width across, all other elements upwards, both in powers of two; below a line everything passes."""
    lines = []
    for one in frontiers:
        points = [
            (log2(limit.shape[-1]), log2(max(limit.elements // limit.shape[-1], 1)))
            for limit in one.limits
            if limit.shape and limit.shape[-1]
        ]
        if points:
            lines.append((f"{one.op} {one.board} {one.memory}", sorted(points)))
    if not lines:
        return ""
    every = [point for _, points in lines for point in points]
    left, right = floor(min(x for x, _ in every)) - 1, ceil(max(x for x, _ in every)) + 1
    low, high = max(floor(min(y for _, y in every)) - 1, 0), ceil(max(y for _, y in every)) + 1

    def across(x: float) -> float:
        return _LEFT + (x - left) / (right - left) * (_WIDTH - _LEFT - _RIGHT)

    def up(y: float) -> float:
        return _HEIGHT - _BOTTOM - (y - low) / (high - low) * (_HEIGHT - _BOTTOM - _TOP)

    parts = []
    parts.append(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        'aria-label="Largest shapes that pass, by width" font-family="system-ui, sans-serif" font-size="11" '
        'fill="currentColor">'
    )
    parts += [
        f'<line x1="{across(x):.1f}" y1="{_TOP}" x2="{across(x):.1f}" y2="{_HEIGHT - _BOTTOM}" stroke="#8884"/>'
        f'<text x="{across(x):.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{2**x:,}</text>'
        for x in range(left, right + 1)
    ]
    step = max((high - low) // 10, 1)
    parts += [
        f'<line x1="{_LEFT}" y1="{up(y):.1f}" x2="{_WIDTH - _RIGHT}" y2="{up(y):.1f}" stroke="#8884"/>'
        f'<text x="{_LEFT - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{_short(2**y)}</text>'
        for y in range(low, high + 1, step)
    ]
    for number, (name, points) in enumerate(lines):
        color = _COLORS[number % len(_COLORS)]
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
        if len(points) > 1:
            parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{color}"/>' for x, y in points]
        top = _TOP + 8 + 16 * number
        parts.append(f'<circle cx="{_WIDTH - _RIGHT + 16}" cy="{top}" r="4" fill="{color}"/>')
        parts.append(f'<text x="{_WIDTH - _RIGHT + 26}" y="{top + 4}">{escape(name)}</text>')
    parts.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">width</text>')
    parts.append(f'<text x="14" y="{_TOP - 6}">elements above the width</text></svg>')
    return "".join(parts)


def _short(number: int) -> str:
    for unit, name in ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
        if number >= unit:
            return f"{number / unit:g} {name}"
    return str(number)
