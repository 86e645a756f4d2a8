# SPDX-License-Identifier: Apache-2.0
"""Boards: how many chips, banks and compute cores each one has under each dispatch setting.

All figures are per chip: the library allocates in lock step, so a mesh has the memory map of one chip.
"""

from __future__ import annotations

from dataclasses import dataclass

from ttmem._errors import BadInputError
from ttmem.hardware._registry import Registry
from ttmem.hardware.architectures import BLACKHOLE, QUASAR, WORMHOLE, Architecture


@dataclass(frozen=True, slots=True)
class Grid:
    """Compute cores in columns (x) and rows (y); each core is one bank of L1."""

    columns: int
    rows: int

    @property
    def cores(self) -> int:
        return self.columns * self.rows

    def __str__(self) -> str:
        return f"{self.columns}x{self.rows}"


@dataclass(frozen=True, slots=True)
class Board:
    """A product (or a box of them) as ttnn opens it."""

    name: str
    architecture: Architecture
    chips: int
    mesh: tuple[int, int]
    dram_banks: int
    grids: tuple[tuple[str, Grid], ...]
    """Compute grid by dispatch (`row`, `col`: on worker cores; `eth`: on Ethernet cores); the first is the default."""
    description: str
    runs_operations: bool = True
    """False: the library can allocate on it, but every operation is refused (measured on the mock)."""
    aliases: tuple[str, ...] = ()

    @property
    def default_dispatch(self) -> str:
        return self.grids[0][0]

    def grid(self, dispatch: str | None = None) -> Grid:
        """The compute grid that is left when dispatch took its cores."""
        wanted = (dispatch or self.default_dispatch).lower()
        for name, grid in self.grids:
            if name == wanted:
                return grid
        known = ", ".join(name for name, _ in self.grids)
        raise BadInputError(f"board {self.name} does not open with dispatch {dispatch!r}", hint=f"known: {known}")

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


def _grids(**by_dispatch: tuple[int, int]) -> tuple[tuple[str, Grid], ...]:
    return tuple((name, Grid(*shape)) for name, shape in by_dispatch.items())


# Harvested rows (Wormhole) or columns (Blackhole) pick the grid; dispatch on workers takes the last row or column.
_ONE_ROW_HARVESTED = _grids(row=(8, 8), col=(7, 9), eth=(8, 8))
_TWO_ROWS_HARVESTED = _grids(eth=(8, 8), row=(8, 7), col=(7, 8))
_NO_ROW_HARVESTED = _grids(row=(8, 9), col=(7, 10), eth=(8, 10))
_TWO_COLUMNS_HARVESTED = _grids(col=(11, 10))
_ONE_COLUMN_HARVESTED = _grids(col=(12, 10))

BOARDS: Registry[Board] = Registry(
    "board",
    (
        Board("n150", WORMHOLE, 1, (1, 1), 12, _ONE_ROW_HARVESTED, "one Wormhole, 12 GB", aliases=("n150s", "n150d")),
        Board(
            "n300",
            WORMHOLE,
            2,
            (1, 2),
            12,
            _TWO_ROWS_HARVESTED,
            "two Wormholes, 12 GB each",
            aliases=("n300s", "n300d"),
        ),
        Board("t3k", WORMHOLE, 8, (2, 4), 12, _TWO_ROWS_HARVESTED, "four n300 (T3000, QuietBox)", aliases=("t3000",)),
        Board(
            "galaxy",
            WORMHOLE,
            32,
            (8, 4),
            12,
            _NO_ROW_HARVESTED,
            "Galaxy 6U, 32 Wormholes",
            aliases=("galaxy-6u", "6u", "tg"),
        ),
        Board("p100", BLACKHOLE, 1, (1, 1), 7, _TWO_COLUMNS_HARVESTED, "one Blackhole, 28 GB", aliases=("p100a",)),
        Board(
            "p150",
            BLACKHOLE,
            1,
            (1, 1),
            8,
            _TWO_COLUMNS_HARVESTED,
            "one Blackhole, 32 GB",
            aliases=("p150a", "p150b", "p150c"),
        ),
        Board(
            "p300",
            BLACKHOLE,
            2,
            (1, 2),
            8,
            _TWO_COLUMNS_HARVESTED,
            "two Blackholes, 32 GB each",
            aliases=("p300a", "p300c"),
        ),
        Board("n300x2", WORMHOLE, 4, (2, 2), 12, _TWO_ROWS_HARVESTED, "two n300", aliases=("2xn300", "n300-2x2")),
        Board("p150x4", BLACKHOLE, 4, (2, 2), 8, _TWO_COLUMNS_HARVESTED, "four p150", aliases=("4xp150",)),
        Board("p150x8", BLACKHOLE, 8, (2, 4), 8, _ONE_COLUMN_HARVESTED, "eight p150", aliases=("8xp150",)),
        Board(
            "blackhole-galaxy", BLACKHOLE, 32, (8, 4), 8, _ONE_COLUMN_HARVESTED, "32 Blackholes", aliases=("bh-galaxy",)
        ),
        Board(
            "quasar",
            QUASAR,
            1,
            (1, 1),
            2,
            _grids(row=(8, 4)),
            "Quasar Q1, simulated only",
            runs_operations=False,
            aliases=("q1",),
        ),
    ),
)
