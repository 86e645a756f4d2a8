# SPDX-License-Identifier: Apache-2.0
"""What is drawn of a run adds up to what the run says."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.circular_buffers.kernels import pairs, run_kernels
from ttmem.circular_buffers.pipeline import BUSY
from ttmem.circular_buffers.simulate import find_spans
from ttmem.circular_buffers.workload import Scenario, Workload, assume


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 8), st.integers(1, 3))
def test_spans_are_the_times_of_the_run(rows: int, r_tiles: int, depth: int, deep_2: int) -> None:
    assumptions = assume()
    kernels = pairs(Workload(rows, r_tiles), assumptions, Scenario(assumptions.nominal_compute_cycles))
    finished = run_kernels(kernels, {"cb0": depth, "cb1": depth, "cb2": deep_2, "cb16": depth}, assumptions)
    drawn = find_spans(kernels, finished)
    for kernel in kernels:
        times, mine = finished.kernels[kernel.name], drawn[kernel.name]
        assert sum(b - a for a, b, kind in mine if kind == BUSY) == pytest.approx(times.busy_cycles)
        assert sum(b - a for a, b, kind in mine if kind != BUSY) == pytest.approx(times.stalled_cycles)
        assert all(before.end_cycle <= after.first_cycle for before, after in pairwise(mine))
        assert (mine[-1].end_cycle if mine else 0.0) == pytest.approx(times.end_cycles)
