# SPDX-License-Identifier: Apache-2.0
"""Boards, one record each (``boards.toml``): chips, banks, compute cores by dispatch, and how the mock is described.

All figures are per chip: the library allocates in lock step, so a mesh has the memory map of one chip. A new board is
one more record there (or ``BOARDS.add(Board(...))``); everything that names boards asks the registry.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ttmem.base import toml
from ttmem.base.errors import BadInputError
from ttmem.hardware._registry import ByName, Registry
from ttmem.hardware.architectures import ARCHITECTURES, Architecture

Link = tuple[int, int, int, int]
"""Chip and Ethernet channel of one end, chip and channel of the other."""


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
class Chip:
    """Harvested cores of a chip; masks as in the library's descriptors."""

    tensix_mask: int
    more_masks: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Mock:
    """Contents of a mock cluster descriptor, beyond the architecture and the number of chips.

    Harvesting decides the grid and so the number of L1 banks; a test holds every mock against its board's bank tables.
    """

    card_type: str
    product_code: int
    chips: tuple[Chip, ...]
    cards: tuple[tuple[int, ...], ...] = ((0,),)
    """Chips of each card."""
    host_chips: tuple[int, ...] = (0,)
    """Chips with a PCIe link of their own."""
    links: tuple[Link, ...] = ()
    chip_coordinates: tuple[tuple[int, int], ...] = ()
    """Position of each chip in a Wormhole box; Blackhole descriptors omit it."""
    buses: tuple[int, ...] = ()
    """PCIe bus of each chip, where the library derives a position from it."""


@dataclass(frozen=True, slots=True)
class Board(ByName):
    """A product (or a box of them) as ttnn opens it."""

    __hash__ = ByName.__hash__
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
    """Description for the mock; None: the library cannot open it without a card, or it was not measured."""

    @property
    def chips(self) -> int:
        return self.mesh[0] * self.mesh[1]

    @property
    def default_dispatch(self) -> str:
        return self.grids[0][0]

    def grid(self, dispatch: str | None = None) -> Grid:
        """Return the compute grid without the cores that dispatch uses."""
        wanted = (dispatch or self.default_dispatch).lower()
        grids = dict(self.grids)
        if wanted in grids:
            return grids[wanted]
        known = ", ".join(grids)
        raise BadInputError(f"board {self.name} does not open with dispatch {dispatch!r}", hint=f"known: {known}")


def _board(
    architecture: str,
    grids: dict[str, list[int]],
    mesh: Sequence[int] = (1, 1),
    mock: dict[str, Any] | None = None,
    **facts: Any,
) -> Board:
    return Board(
        architecture=ARCHITECTURES.find(architecture),
        grids=tuple((dispatch, Grid(*shape)) for dispatch, shape in grids.items()),
        mesh=(mesh[0], mesh[1]),
        mock=_mock(prod(mesh), **mock) if mock else None,
        **_frozen(facts),
    )


def _mock(count: int, chips: list[dict[str, int]], links: Sequence[list[int]] = (), **facts: Any) -> Mock:
    harvested = [
        Chip(tensix, tuple((f"{unit}_harvesting_mask", mask) for unit, mask in more.items()))
        for tensix, more in ((chip.pop("tensix"), chip) for chip in chips)
    ]
    single = tuple((chip, a + i, other, b + i) for chip, a, other, b, parallel in links for i in range(parallel))
    return Mock(chips=tuple(harvested) * (count // len(harvested)), links=single, **_frozen(facts))


def _frozen(facts: dict[str, Any]) -> dict[str, Any]:
    def tuples(value: Any) -> Any:
        return tuple(map(tuples, value)) if isinstance(value, list) else value

    return {name: tuples(value) for name, value in facts.items()}


_RECORDS = toml.load_packaged("ttmem.hardware", "boards.toml")["board"]
BOARDS: Registry[Board] = Registry("board", (_board(**record) for record in _RECORDS))
