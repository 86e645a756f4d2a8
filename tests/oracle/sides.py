# SPDX-License-Identifier: Apache-2.0
"""Two engines side by side: the same steps, and what they answer in the words that are compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ttmem.engines.engine import Engine, EngineSettings
from ttmem.engines.ttnn import TtnnEngine
from ttmem.engines.twin import TwinEngine
from ttmem.hardware import BOARDS, Board, Chip, Mock

Step = dict[str, Any]
Answer = dict[str, Any]

_COMPARED = (
    "ok", "error", "addresses", "allocated", "free", "largest_free", "blocks",
    "address", "pages", "page_bytes", "aligned_page_bytes", "shape", "padded", "dtype", "layout", "memory",
)  # fmt: skip
_OF_SHARDS = ("shard", "shard_cores")
"""Of results alone: the library may tell shards of many dimensions as height, width or block shards."""
_PATIENCE_SECONDS = 120.0


def boards_of_the_oracle() -> list[Board]:
    """Boards as the library opens them by itself; ttmem's own mocks differ where operations need it (see n300)."""

    def like(board: str, name: str, mock: Mock, **changes: Any) -> Board:
        return replace(BOARDS.find(board), name=name, aliases=(), mock=mock, **changes)

    one_chip = {"mesh": (1, 1)}
    p150 = BOARDS.find("p150").mock
    assert p150 is not None
    one_column = replace(p150.chips[0], tensix_mask=0b1000_0000)
    n300 = Mock(
        "n300",
        0x14,
        (Chip(0b1100_0000),) * 2,
        cards=((0, 1),),
        links=((0, 8, 1, 0), (0, 9, 1, 1)),
        chip_coordinates=((0, 0), (1, 0)),
    )
    return [
        like("n300", "n300-as-sold", n300),
        like("galaxy", "galaxy-chip", Mock("n150", 0x18, (Chip(0),)), **one_chip),
        like("p150x8", "p150-one-column", Mock("p150", 0x40, (one_column,)), **one_chip),
        like("quasar", "quasar-mock", Mock("quasar", 0x50, (Chip(0),)), **one_chip),
    ]


class Side:
    """An engine whose device stays open: what steps do, later steps find."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.board = engine.settings.board
        self._settings: dict[str, Any] | None = None
        self._open: Answer = {}

    def open(self, **settings: Any) -> Answer:
        """Open the board, or keep it open when the settings are the same."""
        if settings != self._settings:
            self._settings = None
            (self._open,) = self._ask([{"open": settings}])
            if self._open["ok"]:
                self._settings = settings
        return self._open

    @property
    def settings(self) -> dict[str, Any] | None:
        """The settings with which the board is open."""
        return self._settings

    def forget(self) -> None:
        """Open the board anew: whatever lies on it is gone."""
        self._settings = None
        self._open = self.open()

    def run(self, steps: list[Step]) -> list[Answer]:
        return [compared(answer) for answer in self._ask(steps)]

    def close(self) -> None:
        self.engine.close()

    def _ask(self, steps: list[Step]) -> list[Any]:
        outcome = self.engine.ask(steps, isolated=False, timeout=_PATIENCE_SECONDS)
        if len(outcome.answers) < len(steps):
            self._settings = None
            raise RuntimeError(f"{self.board}: {outcome.message} at {steps[len(outcome.answers)]}")
        return list(outcome.answers)


def compared(answer: Answer) -> Answer:
    """What both sides say; of an exception the library's own sentence, between ``info:`` and the backtrace."""
    told = {name: answer[name] for name in _COMPARED if name in answer}
    if "results" in answer:
        told["results"] = [
            {**compared({**one, "ok": True}), **{name: one[name] for name in _OF_SHARDS if name in one}}
            for one in answer["results"]
        ]
    if "error" in told:
        told["error"] = told["error"].rpartition("\ninfo:\n")[2].strip()
    return told


def real_side(board: str) -> Side:
    return Side(TtnnEngine(EngineSettings(board=board, measure_programs=False)))


def twin_side(board: str) -> Side:
    return Side(TwinEngine(EngineSettings(board=board)))
