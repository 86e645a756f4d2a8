# SPDX-License-Identifier: Apache-2.0
"""Bank tables as the published wheels report them on a mock cluster."""

from __future__ import annotations

import pytest

from ttmem.base.errors import BadInputError
from ttmem.hardware import BOARDS, OpenSettings, open_board


def pools(board, release="0.81.1", **settings):
    memory_map = open_board(board, OpenSettings(**settings), release)
    return {p.memory.name: (p.banks, p.base_address, p.bytes_per_bank) for p in memory_map.pools}


@pytest.mark.parametrize("board", ["n150", "n300", "t3k", "n300x2"])
def test_wormhole_with_64_cores(board):
    assert pools(board) == {
        "DRAM": (12, 1048640, 1072693184),
        "L1": (64, 105824, 1393312),
        "L1_SMALL": (0, 1499136, 0),
        "TRACE": (12, 1073741824, 0),
    }


@pytest.mark.parametrize(("board", "dram_banks", "cores"), [("p100", 7, 110), ("p150", 8, 110), ("p150x8", 8, 120)])
def test_blackhole(board, dram_banks, cores):
    assert pools(board)["DRAM"] == (dram_banks, 1048704, 4277141376)
    assert pools(board)["L1"] == (cores, 111744, 1461120)


@pytest.mark.parametrize(
    ("board", "dispatch", "grid"),
    [("n150", "col", "7x9"), ("n150", "eth", "8x8"), ("n300", "row", "8x7"), ("galaxy", "eth", "8x10")],
)
def test_dispatch_moves_the_grid(board, dispatch, grid):
    assert str(open_board(board, OpenSettings(dispatch=dispatch)).grid) == grid


def test_a_dispatch_setting_that_does_not_open_is_refused():
    with pytest.raises(BadInputError, match="p150 does not open with dispatch 'eth'"):
        open_board("p150", OpenSettings(dispatch="eth"))


def test_l1_small_comes_off_the_top_of_l1():
    assert pools("n150", l1_small_bytes=32768)["L1"] == (64, 105824, 1360544)
    assert pools("n150", l1_small_bytes=32768)["L1_SMALL"] == (64, 1466368, 32768)


def test_the_trace_region_is_a_total_spread_over_the_banks():
    assert pools("n150", trace_region_bytes=50_000_000)["TRACE"] == (12, 1048640 + 1068523456, 4169728)
    assert pools("n150", trace_region_bytes=50_000_000)["DRAM"] == (12, 1048640, 1068523456)
    assert pools("n150", trace_region_bytes=10_000_000)["TRACE"][2] == 835584


def test_before_0_74_every_bank_lost_the_whole_trace_region():
    assert pools("n150", "0.73.1", trace_region_bytes=50_000_000)["TRACE"][2] == 50_000_000
    assert pools("p150", "0.72.0", trace_region_bytes=50_000_000)["DRAM"][2] == 4227141376


def test_worker_l1_size_moves_the_base():
    assert pools("n150", worker_l1_bytes=1_000_000)["L1"] == (64, 499136, 1000000)
    assert open_board("n150", OpenSettings(worker_l1_bytes=1463968)).warnings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"worker_l1_bytes": 1463969}, "Worker L1 size 1463969 is larger than max size 1463968"),
        ({"l1_small_bytes": 1400000}, "Reserved size must be less than bank size"),
        ({"trace_region_bytes": 20_000_000_000}, "trace_region_size 20000000000 needs"),
    ],
)
def test_settings_beyond_the_chip_are_refused(settings, message):
    with pytest.raises(BadInputError, match=message):
        open_board("n150", OpenSettings(**settings))


def test_the_l1_base_moves_between_releases():
    assert pools("n150", "0.80.0")["L1"][2] == 1393440
    assert pools("n150", "0.75.0")["L1"][2] == 1393600
    assert pools("p150", "0.75.0")["L1"][2] == 1461504
    assert pools("n150", "0.69.0")["DRAM"][2] == 1073741792


def test_a_release_that_was_not_measured_on_an_architecture_is_not_guessed():
    with pytest.raises(BadInputError, match=r"no bank table for blackhole in ttnn 0\.69\.0"):
        open_board("p150", release="0.69.0")


def test_every_board_opens_and_names_its_source():
    for board in BOARDS:
        assert open_board(board).source == "ttnn 0.81.1"
