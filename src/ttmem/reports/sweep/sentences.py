# SPDX-License-Identifier: Apache-2.0
"""What all reports of a sweep say in words: notes, severities, advice, where the figures come from."""

from collections.abc import Mapping, Sequence
from typing import Any

from ttmem.operators.sweeps.summary import SEVERITIES, Findings

_SIZES_NOTE = (
    "Sizes are in units of 1024. 'Logical' is elements times element size; 'on device' is the allocation that failed "
    "as the allocator names it: tile-padded, in the layout that ran."
)
_COUNT_NOTE = (
    "Each failure is counted once. A test skipped because it ran out of memory is an OOM; an operator without an "
    "executed test has no verdict; DRAM and L1 are told apart."
)
NOTES = (_COUNT_NOTE, _SIZES_NOTE)
"""What is counted, and what the sizes mean."""


def memories_text(counts: Mapping[str, int]) -> str:
    """``DRAM 1, L1 41``."""
    return ", ".join(f"{memory} {count}" for memory, count in sorted(counts.items())) or "-"


def severity_range(name: str) -> str:
    """``100MB-500MB``, the sizes of a class."""
    bounds = dict(SEVERITIES)
    if name not in bounds:
        return "unknown size"
    above = [least for _, least in SEVERITIES if least > bounds[name]]
    if not above:
        return f">{bounds[name]}MB"
    return f"{bounds[name]}MB-{min(above)}MB" if bounds[name] else f"<={min(above)}MB"


def advice_text(advice: Sequence[Mapping[str, Any]]) -> str:
    """One line: everything that passes, the least change first."""
    return "; or ".join(
        f"{one['do']}{'' if one['confidence'] in ('exact', 'real') else ' (not exact)'}" for one in advice
    )


def advice_note(findings: Findings) -> str:
    """Who was asked what passes, and about what nobody was; nothing where nothing ran out of memory."""
    if not findings.summary.failures:
        return ""
    asked = findings.advice_from
    text = f"What passes was asked of the {asked}; a chunk runs alone, the rest of its tensor waits elsewhere."
    if findings.unadvised:
        text += f" {findings.unadvised} failures were not asked about (too many, or their shape or memory is unknown)."
    return text


def facts_lines(findings: Findings) -> list[str]:
    """Where the figures come from, and what they leave open."""
    summary = findings.summary
    lines = [f"{name}: {value}" for name, value in {"Source": findings.source, **summary.facts}.items()]
    return lines + [f"Note: {note}" for note in summary.notes]


def bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def document(*parts: str) -> str:
    """Paragraphs; what there is nothing to say about is left out."""
    return "\n\n".join(part for part in parts if part) + "\n"
