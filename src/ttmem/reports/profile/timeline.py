# SPDX-License-Identifier: Apache-2.0
"""A memory's history made small enough to draw, without ever losing a peak."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttmem.analysis.states import state_column
from ttmem.profile import Profile
from ttmem.profile.operation_forms import Int64


@dataclass(frozen=True, slots=True)
class Series:
    """One memory of one process: bytes per bank over operations."""

    operation: Int64
    """Per state: how many operations had been started before it, so that submit states fall between operations."""
    allocated: Int64
    block: NDArray[np.intp]
    """Position of the state in the timeline."""


def series(profile: Profile, timeline_index: int, memory: str) -> Series:
    """Every state that shows the memory."""
    timeline = profile.timelines[timeline_index]
    states = state_column(profile, timeline, memory)
    printed_before = timeline.block_operation[states.block].astype(np.int64)
    # A submit state has no operation of its own: it stands after the last one that was named before it.
    named = np.maximum.accumulate(printed_before) if len(printed_before) else printed_before
    place = np.where(printed_before >= 0, printed_before, np.maximum(named + 1, timeline.first_index))
    return Series(operation=place, allocated=states.value, block=states.block)


def downsampled(values: Int64, most: int) -> NDArray[np.intp]:
    """Positions of at most ``most`` points: the first lowest and first highest of each stretch, in order.

    Averages and nearest-point sampling would lose the one state that decides whether a model fits.
    """
    count = len(values)
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, most // 2 + 1).astype(np.intp)
    kept: set[int] = set()
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        stretch = values[start:end]
        kept.add(start + int(stretch.argmin()))
        kept.add(start + int(stretch.argmax()))
    return np.array(sorted(kept), dtype=np.intp)


def highest_per_column(values: Int64, columns: int) -> Int64:
    """The highest state in each of so many equal stretches (fewer columns when there are fewer states)."""
    columns = min(columns, len(values))
    if not columns:
        return values[:0]
    edges = np.linspace(0, len(values), columns + 1).astype(np.intp)[:-1]
    highest: Int64 = np.maximum.reduceat(values, edges)
    return highest
