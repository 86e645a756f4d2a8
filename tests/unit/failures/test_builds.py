# SPDX-License-Identifier: Apache-2.0
"""Boards and builds, told from bank sizes, bank counts, addresses and core ranges."""

from __future__ import annotations

import pytest

from support.failure_messages import CASES
from ttmem.failures.diagnosis.board_guess import BoardGuess, guess_board, parse_core_range
from ttmem.failures.failure import Failure
from ttmem.failures.text.find import find_failures


def dram(banks: int, bank_bytes: int | None = None) -> Failure:
    numbers = {"banks": banks} | ({"bank_bytes": bank_bytes} if bank_bytes else {})
    return Failure("oom/unknown", "DRAM", "", "A3", numbers)


def l1(bank_bytes: int, banks: int = 64) -> Failure:
    return Failure("oom/unknown", "L1", "", "A3", {"banks": banks, "bank_bytes": bank_bytes})


@pytest.mark.parametrize(
    ("banks", "bank_bytes", "architecture", "profiler", "trace"),
    [
        (12, 1073741792, "wormhole", False, 0),
        (12, 1071821792, "wormhole", True, 0),
        (12, 1070773184, "wormhole", True, 0),
        (12, 1048741792, "wormhole", False, 25_000_000),
        (12, 1021821792, "wormhole", True, 50_000_000),
        (12, 1072693184, "wormhole", False, 0),  # published wheels since 0.72
        (8, 4278190016, "blackhole", False, 0),
        (8, 4273390016, "blackhole", True, 0),
        (8, 4272341376, "blackhole", True, 0),
        (7, 4272341376, "blackhole", True, 0),
    ],
)
def test_dram_bank_sizes_of_public_builds(
    banks: int, bank_bytes: int, architecture: str, profiler: bool, trace: int
) -> None:
    found = guess_board(dram(banks, bank_bytes))
    assert (found.architecture, found.confidence) == (architecture, "likely")
    assert ("profiler_bytes_per_bank" in found.numbers) == profiler
    assert found.numbers["trace_region_bytes_per_bank"] == trace


def test_a_size_that_two_builds_explain_is_not_decided() -> None:
    found = guess_board(dram(12, 1046181792))
    assert "trace_region_bytes_per_bank" not in found.numbers
    assert found.numbers["least_trace_region_bytes_per_bank"] == 24591392
    assert found.build == ("24,591,392 to 27,560,000 B of every bank are reserved, mostly a trace region",)


@pytest.mark.parametrize(
    ("bank_bytes", "base", "small"),
    [
        (1331936, 101664, 65536),
        (1364704, 101664, 32768),
        (1330944, 102656, 65536),
        (1363712, 102656, 32768),
        (1396480, 102656, 0),
        (1329888, 103712, 65536),
        (1395424, 103712, 0),
        (1393312, 105824, 0),
        (1330048, 103552, 65536),
    ],
)
def test_l1_bank_sizes_of_public_builds(bank_bytes: int, base: int, small: int) -> None:
    found = guess_board(l1(bank_bytes))
    assert (found.numbers["l1_base_address"], found.numbers["l1_small_bytes"]) == (base, small)


def test_an_unknown_base_is_not_invented() -> None:
    found = guess_board(l1(1364928))
    assert "l1_base_address" not in found.numbers
    assert found.build == ("L1 base and L1_SMALL take 134,208 B together",)


def test_boards_by_banks_and_cores() -> None:
    assert guess_board(dram(7, 4272341376)).boards == ("p100",)
    assert "n150" in guess_board(dram(12)).boards
    assert "n150" not in guess_board(l1(1393312, 56)).boards  # a grid of 8x7 is an n300's
    assert guess_board(l1(1461120, 110)).architecture == "blackhole"


def test_eight_small_banks_are_a_chip_of_the_past() -> None:
    assert guess_board(dram(8, 1073741792)) == BoardGuess("grayskull", (), "possible")
    assert guess_board(dram(8)).confidence == "possible"


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("[(x=0,y=0) - (x=7,y=7)]", 64),
        ("[0-0 - 10-9]", 110),
        ("[7-6 - 7-6]", 1),
        ("{[0-0 - 7-7], [0-8 - 3-8]}", None),
        ("[3-3 - 1-1]", None),
        ("", None),
        (None, None),
    ],
)
def test_core_ranges_in_both_spellings(text: str | None, cores: int | None) -> None:
    found = parse_core_range(text)
    assert (found.cores if found else None) == cores


def clash(core_range: str, address: int = 600_000) -> Failure:
    numbers = {"l1_buffer_address": address, "region_end": address + 100, "overlap_bytes": 100}
    return Failure("buffers/clash", "L1", "", "C1", numbers, {"core_range": core_range})


def test_a_wide_core_range_or_a_high_address_is_a_blackhole() -> None:
    assert guess_board(clash("[0-0 - 10-4]")).architecture == "blackhole"
    assert guess_board(clash("[0-0 - 3-3]", 1_520_000)).architecture == "blackhole"
    assert guess_board(clash("[0-0 - 4-0]")).architecture is None
    assert guess_board(clash("[0-0 - 7-7]")).confidence == "possible"


def test_words_of_the_text_help_but_do_not_contradict_figures() -> None:
    assert guess_board(clash("[0-0 - 4-0]"), hints={"architecture": "blackhole"}).architecture == "blackhole"
    assert guess_board(dram(12, 1073741792), hints={"board": "p150"}).architecture == "wormhole"


def test_the_users_word_counts_more_than_any_figure() -> None:
    found = guess_board(dram(12, 1073741792), board="n300")
    assert (found.boards, found.confidence, found.reasons) == (("n300",), "given", ())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.thread)
def test_no_public_message_breaks_it(case: object) -> None:
    for failure in find_failures(case.message):  # type: ignore[attr-defined]
        found = guess_board(failure)
        assert found.architecture in (None, "wormhole", "blackhole", "grayskull")
        assert (found.confidence == "unknown") == (found.architecture is None)
