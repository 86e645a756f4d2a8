# SPDX-License-Identifier: Apache-2.0
"""Memory figures that a log held and that could not be read: the true peak of a memory may be among them."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ttmem.profile.model import MEMORIES, VIEW_ALLOCATED, VIEW_FREE, VIEW_LARGEST_FREE, VIEW_TOTAL, Timeline
from ttmem.readers.runtime_log._tokens import Kind, LexedLog

_LINES_NAMED = 3
_ADDS_UP_BYTES = 2_600
"""Half of 0.001 MiB for each of the figures that are added up, and as much again."""
_ANY = ""


def unread_figures(
    log: LexedLog, timelines: Sequence[Timeline], *, where: str, left_out: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """By memory (``""``: any of them), what of its figures could not be read, with the lines."""
    lines = {memory: list(numbers) for memory, numbers in log.unread.items()}
    contradictions = _contradictions(log)
    for memory, numbers in contradictions.items():
        lines[memory] = sorted([*lines.get(memory, ()), *numbers])
    if _ANY not in lines:
        lines |= _gaps(timelines, lines)
    texts = {memory: _sentence(memory, numbers, where) for memory, numbers in lines.items()}
    if left_out:
        texts[_ANY] = "; ".join([*left_out, *([texts[_ANY]] if _ANY in texts else [])])
    return {memory: {"text": text, "contradicts": memory in contradictions} for memory, text in texts.items()}


def warnings_of(log: LexedLog) -> list[str]:
    """A warning for each figure that was used although it contradicts the others of its line; at most a few."""
    found = [(line, memory) for memory, lines in _contradictions(log).items() for line in lines]
    return [f"line {line}: the figures of {memory} do not add up" for line, memory in sorted(found)[:_LINES_NAMED]]


def _sentence(memory: str, lines: Sequence[int], where: str) -> str:
    named = ", ".join(f"{where}:{line}" for line in lines[:_LINES_NAMED])
    more = f" and {len(lines) - _LINES_NAMED:,} more" if len(lines) > _LINES_NAMED else ""
    what = f"memory line{'s' if len(lines) > 1 else ''}{f' of {memory}' if memory else ''}"
    return f"{len(lines):,} {what} could not be read: {named}{more}"


def _contradictions(log: LexedLog) -> dict[str, list[int]]:
    """The lines whose figures do not add up, by memory."""
    views = log.tables.views()
    odd = np.abs(views[:, VIEW_TOTAL] - views[:, VIEW_ALLOCATED] - views[:, VIEW_FREE]) > _ADDS_UP_BYTES
    odd |= views[:, VIEW_LARGEST_FREE] > views[:, VIEW_FREE] + _ADDS_UP_BYTES
    if not odd.any():
        return {}
    kinds = np.array(log.tables.kind, np.int8)[log.token]
    payloads = np.array(log.tables.payload, np.int32)[log.token]
    found = {}
    for number, memory in enumerate(MEMORIES):
        at = np.flatnonzero(kinds == Kind.VIEW_DRAM + number)
        lines = log.line[at[odd[payloads[at]]]].tolist()
        if lines:
            found[memory] = lines
    return found


def _gaps(timelines: Iterable[Timeline], known: dict[str, list[int]]) -> dict[str, list[int]]:
    """The states that should hold a view of a memory and do not; the last one may be cut, but not empty."""
    found: dict[str, list[int]] = {}
    for timeline in timelines:
        has = timeline.state_view >= 0
        for number, memory in enumerate(MEMORIES):
            if memory in known or not has[:, number].any():
                continue
            without = np.flatnonzero(~has[:-1, number])
            spare = int(has.sum(axis=0).max()) - int(has[:, number].sum()) - int(not has[-1, number])
            if without.size and spare > 0:
                found.setdefault(memory, []).extend(timeline.state_line[without].tolist())
            elif not has[-1].any() and has[:-1, number].all():
                found.setdefault(memory, []).append(int(timeline.state_line[-1]))
    return found
