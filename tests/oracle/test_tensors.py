# SPDX-License-Identifier: Apache-2.0
"""Random tensors: address, pages, padded shape, bytes taken, and the reason when the library refuses one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.conftest import share_of_the_run
from oracle.sides import Side, twin_side
from oracle.strategies import kills_the_library, specs
from ttmem.base.errors import TtmemError
from ttmem.engines.twin import TwinEngine
from ttmem.hardware import MemoryMap
from ttmem.twin.placement import compute_paging, place
from ttmem.twin.replay import read_spec

pytestmark = pytest.mark.oracle

OPENED = {"l1_small_size": 65536, "trace_region_size": 100_000_000}
BATCH = 15


def twin_map(twin: Side) -> MemoryMap:
    assert isinstance(twin.engine, TwinEngine)
    return twin.engine.device.memory_map


def is_guarded(step: dict[str, Any], twin: Side) -> bool:
    """The library's answer would be wrong: the twin warns, or it refuses what the library lost count of."""
    try:
        spec = read_spec(step)
        if compute_paging(spec).pages >> 31:
            return True
        return bool(place(spec, twin_map(twin)).warnings)
    except TtmemError:
        return False


def refused_by_the_binding(answer: dict[str, Any]) -> bool:
    return "incompatible function arguments" in answer.get("error", "")


@pytest.mark.parametrize("board", ["n150", "n300", "p150", "p100"])
def test_tensors_are_placed_as_the_library_places_them(real_device: Callable[[str], Side], board: str) -> None:
    real, twin = real_device(board), twin_side(board)
    columns, rows = real.open(**OPENED)["grid"]
    twin.open(**OPENED)

    @share_of_the_run(0.1, BATCH)
    @given(st.lists(specs(columns, rows), min_size=8, max_size=30))
    def compare(batch: list[dict[str, Any]]) -> None:
        batch = [spec for spec in batch if not kills_the_library(spec)]
        steps = [s for spec in batch for s in ({"alloc": "a", **spec}, {"view": spec["memory"]}, {"clear": "cache"})]
        expected, found = real.run(steps), twin.run(steps)
        for number, spec in enumerate(batch):
            theirs, ours = expected[3 * number : 3 * number + 2], found[3 * number : 3 * number + 2]
            if is_guarded(spec, twin):
                continue
            if "Added by ttmem" in theirs[0].get("error", "") or refused_by_the_binding(theirs[0]):
                assert not ours[0]["ok"], spec
                continue
            assert ours == theirs, spec

    compare()


def test_page_counts_that_wrap_in_the_library_are_right_here_and_carry_a_warning(
    real_device: Callable[[str], Side],
) -> None:
    # GIVEN 2^32 pages: 8 TiB
    step = {"alloc": "a", "shape": [1 << 21, 1 << 21], "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}
    real, twin = real_device("n150"), twin_side("n150")
    real.open()
    twin.open()
    # WHEN the library allocates it THEN it takes 32 bytes per bank and is content (an alloc step would be refused)
    given = [{"shape": step["shape"]}, {"dtype": "bfloat16"}, {"layout": "tile"}, {"device": 0}, {"memory": "DRAM"}]
    call = {"call": "ttnn.allocate_tensor_on_device", "args": given, "out": "a"}
    assert real.run([call, {"view": "DRAM"}, {"clear": "cache"}])[1]["allocated"] == 32
    assert "would have wrapped" in real.run([step])[0]["error"]
    # WHEN the twin does THEN it says what it takes, that it does not fit, and that the library would not notice
    placement = place(read_spec(step), twin_map(twin))
    assert placement.total_bytes == 1 << 43
    assert not placement.fits_empty
    assert "32-bit counters" in placement.warnings[0]


def test_a_tensor_without_elements_has_no_pages_however_many_rows_it_has(real_device: Callable[[str], Side]) -> None:
    step = {"alloc": "a", "shape": [64, 8192, 8192, 0], "dtype": "bfloat16", "layout": "row_major", "memory": "DRAM"}
    for side in (real_device("p150"), twin_side("p150")):
        side.open()
        _, answer, view = side.run([{"clear": "cache"}, step, {"view": "DRAM"}])
        assert (answer["ok"], answer["pages"], view["allocated"]) == (True, 0, 0)
