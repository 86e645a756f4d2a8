# SPDX-License-Identifier: Apache-2.0
"""Padding of the tensors alive at the DRAM peak."""

from __future__ import annotations

from support.log_lines import DEVICE, TWO_MB, Log, tensor
from ttmem.analysis.padding import Padding, padding_at_peak
from unit.analysis.test_lifetimes import op


def test_tiles_that_are_half_empty() -> None:
    # GIVEN 77x77 floats in 3x3 tiles: 23,716 of 36,864 bytes; and a tensor without padding
    odd = tensor("77x77", "3x3", element="f32")
    log = Log()
    log.start()
    log.op(op("%1", "softmax", "%arg0", TWO_MB, odd), 2.0)
    log.free("%1", odd, 2.004)
    padding = padding_at_peak(log.profile())
    assert (padding.logical_bytes, padding.padded_bytes) == (25165824 + 23716, 25165824 + 36864)
    assert padding.overhead_percent == 0.0522
    assert [(life.name, life.type.padding_bytes) for life in padding.top] == [("%1", 13148)]


def test_block_floats_count_shape_padding_only() -> None:
    # GIVEN 32x64 elements of bfloat8_b: two tiles of 1,088 bytes, full; and 33x32: two tiles, half empty
    full = tensor("32x64", "1x2x!ttcore.tile<32x32, bfp_bf8>")
    half = tensor("33x32", "2x1x!ttcore.tile<32x32, bfp_bf8>")
    log = Log()
    log.start()
    log.op(op("%1", "typecast", "%arg0", full, half), 0.001)
    log.free("%1", half, 0.002)
    padding = padding_at_peak(log.profile())
    assert (padding.logical_bytes, padding.padded_bytes) == (2176 + 1122, 2176 + 2176)
    assert [life.name for life in padding.top] == ["%1"]


def test_a_type_that_is_too_small_for_its_shape_has_no_padding() -> None:
    torn = tensor("4096x4096", "32x32")
    log = Log()
    log.start()
    log.op(op("%1", "add", "%arg0", TWO_MB, torn), 2.0)
    log.free("%1", torn, 2.2)
    padding = padding_at_peak(log.profile())
    assert padding.wasted_bytes == 0
    assert padding.overhead_percent == 0


def test_most_wasteful_first_and_only_dram() -> None:
    small, large = tensor("1x32", "1x1"), tensor("32x1x32", "32x1")
    in_l1 = tensor("1x32", "1x1", buffer="l1", grid="1x1", placement="height_sharded")
    log = Log()
    log.start()
    log.op(op("%1", "relu", "%arg0", small, large), 0.0)
    log.op(op("%2", "relu", "%1", large, in_l1), 0.006)
    log.free("%2", in_l1, 0.007)
    padding = padding_at_peak(log.profile())
    assert [(life.name, life.type.padding_bytes) for life in padding.top] == [("%1", 63488), ("%arg0", 1984)]


def test_nothing_alive_nothing_padded() -> None:
    log = Log()
    log.block("before operation MatmulOp", 0.0)
    assert padding_at_peak(log.profile()) == Padding(0, 0, 0.0, ())


def test_tensors_that_nothing_tells_of_have_no_known_padding() -> None:
    without_operations, without_states = Log(), Log()
    without_operations.block("before operation MatmulOp", 7.0)
    without_states.op(DEVICE)
    for log in (without_operations, without_states):
        assert padding_at_peak(log.profile()) == Padding(None, None, None, ())
