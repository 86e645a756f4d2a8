# SPDX-License-Identifier: Apache-2.0
"""Boards, one record each: chips, banks, compute cores under each dispatch setting, and how the mock is described.

All figures are per chip: the library allocates in lock step, so a mesh has the memory map of one chip. A new board is
one more record here (or ``BOARDS.add(Board(...))``); everything that names boards asks the registry.
"""

from __future__ import annotations

from dataclasses import dataclass

from ttmem._errors import BadInputError
from ttmem.hardware import mocks
from ttmem.hardware._registry import Registry
from ttmem.hardware.architectures import BLACKHOLE, QUASAR, WORMHOLE, Architecture
from ttmem.hardware.mocks import Mock


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
    dram_banks: int
    grids: tuple[tuple[str, Grid], ...]
    """Compute grid by dispatch (`row`, `col`: on worker cores; `eth`: on Ethernet cores); the first is the default."""
    description: str
    mesh: tuple[int, int] = (1, 1)
    """Rows and columns of chips."""
    runs_operations: bool = True
    """False: the library can allocate on it, but every operation is refused (measured on the mock)."""
    aliases: tuple[str, ...] = ()
    mock: Mock | None = None
    """How the library opens this board without a card; None: it cannot, or nobody has measured it."""

    @property
    def chips(self) -> int:
        return self.mesh[0] * self.mesh[1]

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

# On an n300 two Tensix rows are harvested and dispatch runs on Ethernet cores, which leaves 8x8 workers. For mock
# clusters the library checks newer programs against a grid as if a worker row dispatched (8x7) and refuses them. One
# harvested row and dispatch on workers gives the same 8x8 grid with the same banks, and every operation is accepted.
_N300_CHIP = mocks.ONE_ROW_HARVESTED

BOARDS: Registry[Board] = Registry(
    "board",
    (
        Board(
            "n150",
            WORMHOLE,
            dram_banks=12,
            grids=_ONE_ROW_HARVESTED,
            description="one Wormhole, 12 GB",
            aliases=("n150s", "n150d"),
            mock=Mock("n150", 0x18, (mocks.ONE_ROW_HARVESTED,)),
        ),
        Board(
            "n300",
            WORMHOLE,
            dram_banks=12,
            grids=_TWO_ROWS_HARVESTED,
            description="two Wormholes, 12 GB each",
            mesh=(1, 2),
            aliases=("n300s", "n300d"),
            mock=Mock(
                "n300",
                0x14,
                (_N300_CHIP,) * 2,
                cards=((0, 1),),
                links=mocks.parallel(0, range(8, 10), 1, range(2)),
                chip_coordinates=((0, 0), (1, 0)),
                worker_dispatch=True,
            ),
        ),
        Board(
            "t3k",
            WORMHOLE,
            dram_banks=12,
            grids=_TWO_ROWS_HARVESTED,
            description="four n300 (T3000, QuietBox)",
            mesh=(2, 4),
            aliases=("t3000",),
            mock=Mock(
                "n300",
                0x14,
                (_N300_CHIP,) * 8,
                cards=((0, 4), (1, 5), (2, 6), (3, 7)),
                host_chips=(0, 1, 2, 3),
                links=mocks.t3k_links(),
                chip_coordinates=tuple((chip % 4, chip // 4) for chip in range(8)),
                worker_dispatch=True,
            ),
        ),
        Board(
            "galaxy",
            WORMHOLE,
            dram_banks=12,
            grids=_NO_ROW_HARVESTED,
            description="Galaxy 6U, 32 Wormholes",
            mesh=(8, 4),
            aliases=("galaxy-6u", "6u", "tg"),
            mock=Mock(
                "ubb",
                0x35,
                (mocks.WHOLE_CHIP,) * 32,
                cards=tuple(tuple(range(tray * 8, tray * 8 + 8)) for tray in range(4)),
                host_chips=tuple(range(32)),
                links=mocks.galaxy_links(),
                buses=mocks.GALAXY_BUSES,
            ),
        ),
        Board(
            "p100",
            BLACKHOLE,
            dram_banks=7,
            grids=_TWO_COLUMNS_HARVESTED,
            description="one Blackhole, 28 GB",
            aliases=("p100a",),
            mock=Mock("p100", 0x43, (mocks.P100_CHIP,)),
        ),
        Board(
            "p150",
            BLACKHOLE,
            dram_banks=8,
            grids=_TWO_COLUMNS_HARVESTED,
            description="one Blackhole, 32 GB",
            aliases=("p150a", "p150b", "p150c"),
            mock=Mock("p150", 0x40, (mocks.P150_CHIP,)),
        ),
        Board(
            "p300",
            BLACKHOLE,
            dram_banks=8,
            grids=_TWO_COLUMNS_HARVESTED,
            description="two Blackholes, 32 GB each",
            mesh=(1, 2),
            aliases=("p300a", "p300c"),
            mock=Mock(
                "p300",
                0x45,
                (mocks.blackhole_chip(pcie_mask=0b10), mocks.blackhole_chip(pcie_mask=0b01)),
                cards=((0, 1),),
                host_chips=(0, 1),
                links=((0, 2, 1, 9), (0, 3, 1, 8)),
            ),
        ),
        Board("n300x2", WORMHOLE, 12, _TWO_ROWS_HARVESTED, "two n300", (2, 2), aliases=("2xn300", "n300-2x2")),
        Board(
            "p150x4",
            BLACKHOLE,
            dram_banks=8,
            grids=_TWO_COLUMNS_HARVESTED,
            description="four p150",
            mesh=(2, 2),
            aliases=("4xp150",),
            mock=Mock(
                "p150",
                0x40,
                (mocks.P150_CHIP,) * 4,
                cards=((0,), (1,), (2,), (3,)),
                host_chips=(0, 1, 2, 3),
                links=mocks.quietbox_links(),
            ),
        ),
        Board("p150x8", BLACKHOLE, 8, _ONE_COLUMN_HARVESTED, "eight p150", (2, 4), aliases=("8xp150",)),
        Board("blackhole-galaxy", BLACKHOLE, 8, _ONE_COLUMN_HARVESTED, "32 Blackholes", (8, 4), aliases=("bh-galaxy",)),
        Board(
            "quasar",
            QUASAR,
            dram_banks=2,
            grids=_grids(row=(8, 4)),
            description="Quasar Q1, simulated only",
            runs_operations=False,
            aliases=("q1",),
        ),
    ),
)
