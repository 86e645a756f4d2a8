# SPDX-License-Identifier: Apache-2.0
"""Banks, bases and limits of every board that the mock opens, under every setting that moves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oracle.real import RealDevice
from oracle.twin import TwinDevice

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
    ("board", "twin_board", "dispatches"),
    [
        ("n150", "n150", ("row", "col", "eth")),
        ("n300", "n300", ("eth", "row", "col")),
        ("galaxy-chip", "galaxy", ("row", "col", "eth")),
        ("p100", "p100", ("col",)),
        ("p150", "p150", ("col",)),
        ("p150-one-column", "p150x8", ("col",)),
        ("quasar", "quasar", ()),
    ],
)
def test_the_memory_map_is_the_librarys(
    real_device: Callable[[str], RealDevice], board: str, twin_board: str, dispatches: tuple[str, ...]
) -> None:
    real, twin = real_device(board), TwinDevice(twin_board)
    for dispatch in (None, *dispatches):
        for settings in SETTINGS if dispatch is None else SETTINGS[:1]:
            expected = real.open(**settings, **({"dispatch": dispatch} if dispatch else {}))
            found = twin.open(**settings, dispatch=dispatch)
            if "error" in expected:
                assert expected["error"] in found["error"], settings
            else:
                expected.pop("max_worker_l1", None)
                assert found == expected, settings


def test_an_oversized_trace_region_wraps_in_the_library_and_is_refused_here(
    real_device: Callable[[str], RealDevice],
) -> None:
    assert real_device("n150").open(trace_region_size=20_000_000_000)["pools"]["DRAM"][2] > 1 << 63
    assert "trace_region_size 20000000000" in TwinDevice("n150").open(trace_region_size=20_000_000_000)["error"]
