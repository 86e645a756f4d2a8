# SPDX-License-Identifier: Apache-2.0
"""Banks, bases and limits of every board that the mock opens, under every setting that moves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oracle.sides import Side, compared, twin_side

pytestmark = pytest.mark.oracle

SETTINGS: list[dict[str, Any]] = [
    {},
    {"l1_small_size": 1},
    {"l1_small_size": 32768},
    {"l1_small_size": 1_400_000},
    {"l1_small_size": 1_500_000},
    {"trace_region_size": 1},
    {"trace_region_size": 10_000_000},
    {"trace_region_size": 123_456_789, "l1_small_size": 12345},
    {"worker_l1_size": 1_000_000},
    {"worker_l1_size": 1_000_001, "l1_small_size": 1000},
    {"worker_l1_size": 1_463_968},
    {"worker_l1_size": 1_463_969},
    {"worker_l1_size": 1_600_000},
]


@pytest.mark.parametrize(
    ("board", "dispatches"),
    [
        ("n150", ("row", "col", "eth")),
        ("n300-as-sold", ("eth", "row", "col")),
        ("galaxy-chip", ("row", "col", "eth")),
        ("p100", ("col",)),
        ("p150", ("col",)),
        ("p150-one-column", ("col",)),
        ("quasar-mock", ()),
    ],
)
def test_the_memory_map_is_the_librarys(
    real_device: Callable[[str], Side], board: str, dispatches: tuple[str, ...]
) -> None:
    real, twin = real_device(board), twin_side(board)
    for dispatch in (None, *dispatches):
        for settings in SETTINGS if dispatch is None else SETTINGS[:1]:
            expected = real.open(**settings, **({"dispatch": dispatch} if dispatch else {}))
            found = twin.open(**settings, dispatch=dispatch)
            if "error" in expected:
                assert compared(expected)["error"] in found["error"], settings
            else:
                assert found == {name: expected[name] for name in found}, settings


def test_an_oversized_trace_region_wraps_in_the_library_and_is_refused_here(
    real_device: Callable[[str], Side],
) -> None:
    # GIVEN a trace region larger than DRAM: the worker looks at what the library made of it
    told = real_device("n150").open(trace_region_size=20_000_000_000)
    assert "the library accepts it and wraps the bank size" in told["error"]
    assert "trace_region_size 20000000000" in twin_side("n150").open(trace_region_size=20_000_000_000)["error"]
