# SPDX-License-Identifier: Apache-2.0
"""What a result knows of its sizes."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.failures.outcome import Outcome
from ttmem.hardware import DATA_TYPES
from ttmem.operators.case import Case, CaseTensor
from ttmem.operators.sweeps.ask_engine import CaseRunner
from ttmem.operators.sweeps.plan import Point, SweepSettings
from ttmem.operators.sweeps.result import Result, pad_size
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import LAYOUTS, TensorSpec

shapes = st.lists(st.integers(1, 300), max_size=5).map(tuple)


@pytest.mark.parametrize("dtype", DATA_TYPES, ids=str)
@given(shapes, st.sampled_from(["tile", "row_major"]))
def test_padding_never_makes_a_tensor_smaller(dtype, shape: tuple[int, ...], layout: str) -> None:  # type: ignore[no-untyped-def]
    result = Result("x", "silu", Outcome("clash"), layout=layout, shapes=(shape,), dtype=dtype.name)

    assert result.shape_logical_bytes is not None
    assert result.device_bytes is not None
    assert result.shape_logical_bytes <= result.device_bytes


@given(shapes, st.sampled_from(["bfloat16", "float32", "bfloat8_b", "bfloat4_b", "uint32"]))
def test_padded_bytes_are_those_of_the_placement(shape: tuple[int, ...], name: str) -> None:
    dtype = DATA_TYPES.find(name)
    spec = TensorSpec(shape or (1,), dtype, LAYOUTS.find("tile"))
    assert pad_size(shape, dtype, "tile") == compute_paging(spec).padded_bytes


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "bfloat8_b", "bfloat4_b"])
def test_sweeps_in_every_data_type_ask_for_no_less_than_the_elements(dtype: str) -> None:
    # GIVEN a tensor of 4 Gi elements, too large for the DRAM of a board with a result beside it
    case = Case("silu", (CaseTensor((65536, 65536)),))
    (result,) = CaseRunner(SweepSettings(float_dtype=dtype)).ask([Point(case, "n150", "DRAM", "tile")])
    assert result.logical_bytes == DATA_TYPES.find(dtype).logical_bytes(prod((65536, 65536)))
    assert result.padded_bytes == result.logical_bytes


def test_banks_are_read_from_the_sentence() -> None:
    def banks(message: str) -> int | None:
        return Result("x", "silu", Outcome("oom", message=message)).banks

    assert banks("Not enough space to allocate 8 B L1 buffer across 64 banks, where") == 64
    assert banks("Not enough space after considering dependencies to allocate 8 B DRAM across 12 banks") == 12
    assert banks("no figures here") is None
