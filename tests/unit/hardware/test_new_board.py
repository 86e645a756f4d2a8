# SPDX-License-Identifier: Apache-2.0
"""A board is one record: one that only this test knows works wherever boards are named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from ttmem.commands.program import main
from ttmem.engines.mock_board import build_cluster_descriptor, list_mock_boards
from ttmem.hardware import BLACKHOLE, BOARDS, Board, Chip, Grid, Mock, open_board

Ask = Callable[..., dict[str, object]]


@pytest.fixture
def board() -> Iterator[Board]:
    p150 = BOARDS.find("p150").mock
    assert p150 is not None
    yield BOARDS.add(
        Board(
            "p175",
            BLACKHOLE,
            dram_banks=6,
            grids=(("col", Grid(10, 9)),),
            description="two chips with six banks each",
            mesh=(1, 2),
            aliases=("p175x",),
            mock=Mock("p150", 0x40, (*p150.chips, Chip(0)), ((0,), (1,)), host_chips=(0, 1), links=((0, 4, 1, 4),)),
        )
    )
    BOARDS.remove("p175")


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str]) -> Ask:
    def answer(*words: str) -> dict[str, object]:
        assert main([*words, "--json"]) == 0
        document: dict[str, object] = json.loads(capfd.readouterr().out)
        return document

    return answer


def test_its_memories_open(board: Board) -> None:
    opened = open_board("P175X")
    assert (opened.board_name, opened.dram.banks, opened.l1.banks) == ("p175", 6, 90)
    assert opened.dram.bytes_per_bank == open_board("p150").dram.bytes_per_bank


def test_the_verbs_know_it(board: Board, ask: Ask) -> None:
    (listed,) = ask("boards", "p175")["boards"]  # type: ignore[misc]
    assert (listed["description"], listed["grid"], listed["chips"]) == (board.description, [10, 9], 2)
    assert "p175" in [one["name"] for one in ask("boards")["boards"]]  # type: ignore[union-attr, index]
    placed = ask("tensor", "1x1x1024x1024", "--board", "p175")
    assert (placed["board"], placed["banks"]) == ("p175", 6)
    assert "p175" in [one["board"] for one in ask("tensor", "32x32")["boards"]]  # type: ignore[union-attr, index]


def test_the_library_can_be_told_of_it(board: Board) -> None:
    assert "p175" in list_mock_boards()
    described = json.loads(build_cluster_descriptor(board))
    assert described["arch"] == {"0": "blackhole", "1": "blackhole"}
    assert described["harvesting"]["1"] == {"noc_translation": True, "harvest_mask": 0}
    assert described["ethernet_connections"] == [[{"chip": 0, "chan": 4}, {"chip": 1, "chan": 4}]]
    assert [entry[2]["chips"] for entry in described["boards"]] == [[0], [1]]


def test_a_name_that_is_taken_is_refused_and_a_removed_one_is_free_again(board: Board) -> None:
    with pytest.raises(ValueError, match="board 'p175x' is registered twice"):
        BOARDS.add(Board("p176", BLACKHOLE, 8, board.grids, "", aliases=("p175x",)))
    assert "p176" not in BOARDS
    BOARDS.remove("p175x")
    assert "p175" not in BOARDS
    BOARDS.add(board)
