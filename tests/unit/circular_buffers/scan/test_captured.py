# SPDX-License-Identifier: Apache-2.0
"""Sizes that the scan works out from the library's own source equal those that the library really allocated.

The source is not ours to ship: `TTMEM_TT_METAL` names a checkout of tt-metal. The captured sizes were taken from the
published ttnn on a mock board (tests/data/cb/captured.json).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.scan_sources import DATA
from ttmem.circular_buffers.scan.scanning import parse_bindings, scan

CAPTURED = json.loads((DATA / "captured.json").read_text())["operators"]
CHECKOUT = os.environ.get("TTMEM_TT_METAL")


def scanned_bytes(case: dict[str, Any], checkout: Path) -> list[int | None]:
    """Buffers of the case's program that exist under its bindings and take memory of their own."""
    factory = checkout / "ttnn" / "cpp" / "ttnn" / "operations" / case["factory"]
    bindings = parse_bindings([f"{name}={value}" for name, value in case["bindings"].items()])
    found = scan(factory, bindings=bindings, jobs=1)
    program = next(one for one in found.programs if one.name.endswith(case["program"]))
    return [one.total_bytes for one in program.buffers if one.active and not one.borrowed]


@pytest.mark.skipif(not CHECKOUT, reason="SCANNED SIZES WERE NOT COMPARED WITH CAPTURED ONES: set TTMEM_TT_METAL")
@pytest.mark.parametrize("case", CAPTURED, ids=[case["operator"] for case in CAPTURED])
def test_scanned_and_bound_sizes_equal_the_captured_ones(case: dict[str, Any]) -> None:
    assert scanned_bytes(case, Path(CHECKOUT or "")) == case["captured"]


def test_at_least_ten_operators_are_compared() -> None:
    assert len({case["operator"] for case in CAPTURED}) >= 10
