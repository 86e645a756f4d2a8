# SPDX-License-Identifier: Apache-2.0
"""Cluster descriptors for boards that are not there: the least that the library accepts, written by hand.

The library reads which chips exist, what is harvested on them and how they are wired, and opens a *mock* cluster of it.
Harvesting decides the grid and so the number of L1 banks; every figure here was checked against the twin's bank tables.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ttmem._errors import BadInputError
from ttmem.hardware import BOARDS, Board

Link = tuple[int, int, int, int]
"""Chip and Ethernet channel of one end, chip and channel of the other."""

_PRODUCT_SHIFT = 36
"""The library reads the product from bits 36 and up of a board's id."""


@dataclass(frozen=True, slots=True)
class Chip:
    """What is harvested on a chip; masks as the library's descriptors hold them."""

    tensix_mask: int
    more_masks: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Cluster:
    """One board (or box of boards) as the mock sees it."""

    arch: str
    board_type: str
    product_code: int
    chips: tuple[Chip, ...]
    boards: tuple[tuple[int, ...], ...] = ((0,),)
    """Which chips sit on which card."""
    host_chips: tuple[int, ...] = (0,)
    """Chips with a PCIe link of their own."""
    links: tuple[Link, ...] = ()
    chip_coordinates: tuple[tuple[int, int], ...] = ()
    """Where each chip lies in a Wormhole box; Blackhole descriptors leave it out."""
    buses: tuple[int, ...] = ()
    """PCIe bus of each chip, where the library reads a place from it."""
    worker_dispatch: bool = False
    """Dispatch must run on worker cores, whatever the program asks for (see ``n300`` below)."""


_WORMHOLE, _BLACKHOLE = "wormhole_b0", "blackhole"
_ONE_ROW_HARVESTED = Chip(0b100_0000)
_WHOLE_CHIP = Chip(0)
_TWO_COLUMNS = 0b1100_0000
_TWO_ETHERNET = 0b1_0010_0000
_P100_CHIP = Chip(
    _TWO_COLUMNS,
    (("dram_harvesting_mask", 0b1000), ("eth_harvesting_mask", 0x3FFF), ("pcie_harvesting_mask", 0b10)),
)


def _blackhole_chip(columns_mask: int, pcie_mask: int) -> Chip:
    return Chip(columns_mask, (("eth_harvesting_mask", _TWO_ETHERNET), ("pcie_harvesting_mask", pcie_mask)))


_P150_CHIP = _blackhole_chip(_TWO_COLUMNS, 0b10)


def _parallel(chip: int, channels: range, other: int, other_channels: range) -> tuple[Link, ...]:
    """Several links between the same two chips."""
    return tuple((chip, a, other, b) for a, b in zip(channels, other_channels, strict=True))


def _t3k_links() -> tuple[Link, ...]:
    """Four cards side by side: chips 0-3 have PCIe, chip i + 4 is the remote one of the same card."""
    links: list[Link] = []
    for card in range(4):
        links += _parallel(card, range(8, 10), card + 4, range(2))
    for chip, channels, other, other_channels in (
        (0, range(6, 8), 2, range(6, 8)),
        (0, range(14, 16), 1, range(14, 16)),
        (1, range(2), 3, range(2)),
        (2, range(14, 16), 3, range(14, 16)),
        (4, range(6, 8), 5, range(6, 8)),
        (6, range(6, 8), 7, range(6, 8)),
    ):
        links += _parallel(chip, channels, other, other_channels)
    return tuple(links)


_GALAXY_BUSES = (0xC0, 0x80, 0x00, 0x40)
"""A tray's PCIe bus; the chip's place on the tray, from 1, is added. The library tells trays and places apart by it."""


def _galaxy_links() -> tuple[Link, ...]:
    """Four trays of two rows of four chips, four links between neighbours; trays meet at the last column and row."""
    links: list[Link] = []

    def join(tray: int, place: int, channel: int, other_tray: int, other_place: int, other_channel: int) -> None:
        channels, other_channels = range(channel, channel + 4), range(other_channel, other_channel + 4)
        links.extend(_parallel(tray * 8 + place, channels, other_tray * 8 + other_place, other_channels))

    for tray in range(4):
        for place in (0, 1, 2, 4, 5, 6):
            join(tray, place, 8, tray, place + 1, 4)
        for place in range(4):
            join(tray, place, 12, tray, place + 4, 0)
    for left, right in ((0, 1), (2, 3)):
        for place in (3, 7):
            join(left, place, 8, right, place, 8)
    for upper, lower in ((0, 2), (1, 3)):
        for place in range(4, 8):
            join(upper, place, 12, lower, place, 12)
    return tuple(links)


def _quietbox_links() -> tuple[Link, ...]:
    links: list[Link] = []
    for chip, other, first in ((0, 2, 4), (0, 3, 8), (1, 3, 4), (1, 2, 8)):
        links += _parallel(chip, range(first, first + 4), other, range(first, first + 4))
    return tuple(links)


_N300_CARDS = ((0, 4), (1, 5), (2, 6), (3, 7))

# On an n300 two Tensix rows are harvested and dispatch runs on Ethernet cores, which leaves 8x8 workers. For mock
# clusters the library checks newer programs against a grid as if a worker row dispatched (8x7) and refuses them. One
# harvested row and dispatch on workers gives the same 8x8 grid with the same banks, and every operation is accepted.
CLUSTERS: dict[str, Cluster] = {
    "n150": Cluster(_WORMHOLE, "n150", 0x18, (_ONE_ROW_HARVESTED,)),
    "n300": Cluster(
        _WORMHOLE,
        "n300",
        0x14,
        (_ONE_ROW_HARVESTED,) * 2,
        boards=((0, 1),),
        links=_parallel(0, range(8, 10), 1, range(2)),
        chip_coordinates=((0, 0), (1, 0)),
        worker_dispatch=True,
    ),
    "t3k": Cluster(
        _WORMHOLE,
        "n300",
        0x14,
        (_ONE_ROW_HARVESTED,) * 8,
        boards=_N300_CARDS,
        host_chips=(0, 1, 2, 3),
        links=_t3k_links(),
        chip_coordinates=tuple((chip % 4, chip // 4) for chip in range(8)),
        worker_dispatch=True,
    ),
    "galaxy": Cluster(
        _WORMHOLE,
        "ubb",
        0x35,
        (_WHOLE_CHIP,) * 32,
        boards=tuple(tuple(range(tray * 8, tray * 8 + 8)) for tray in range(4)),
        host_chips=tuple(range(32)),
        links=_galaxy_links(),
        buses=tuple(_GALAXY_BUSES[chip // 8] + chip % 8 + 1 for chip in range(32)),
    ),
    "p100": Cluster(_BLACKHOLE, "p100", 0x43, (_P100_CHIP,)),
    "p150": Cluster(_BLACKHOLE, "p150", 0x40, (_P150_CHIP,)),
    "p300": Cluster(
        _BLACKHOLE,
        "p300",
        0x45,
        (_blackhole_chip(_TWO_COLUMNS, 0b10), _blackhole_chip(_TWO_COLUMNS, 0b01)),
        boards=((0, 1),),
        host_chips=(0, 1),
        links=((0, 2, 1, 9), (0, 3, 1, 8)),
    ),
    "p150x4": Cluster(
        _BLACKHOLE,
        "p150",
        0x40,
        (_P150_CHIP,) * 4,
        boards=((0,), (1,), (2,), (3,)),
        host_chips=(0, 1, 2, 3),
        links=_quietbox_links(),
    ),
}
"""By the name that ``hardware.BOARDS`` knows the board under."""


def cluster_of(board: Board | str) -> Cluster:
    """The mock of a board, refusing boards that have none by name."""
    board = BOARDS.find(board) if isinstance(board, str) else board
    if board.name not in CLUSTERS:
        raise BadInputError(f"no mock of board '{board.name}'", hint=f"there are mocks of {', '.join(CLUSTERS)}")
    return CLUSTERS[board.name]


def descriptor(cluster: Cluster) -> str:
    """The text the library reads. It expects YAML; JSON with a blank before each colon is valid YAML too."""
    numbers = range(len(cluster.chips))
    document: dict[str, object] = {
        "arch": dict.fromkeys(numbers, cluster.arch),
        "chips_with_mmio": [{chip: chip} for chip in cluster.host_chips],
        "ethernet_connections": [
            [{"chip": a, "chan": channel_a}, {"chip": b, "chan": channel_b}]
            for a, channel_a, b, channel_b in cluster.links
        ],
        "harvesting": {
            number: {"noc_translation": True, "harvest_mask": chip.tensix_mask, **dict(chip.more_masks)}
            for number, chip in enumerate(cluster.chips)
        },
        "boards": [
            [
                {"board_id": (cluster.product_code << _PRODUCT_SHIFT) + card},
                {"board_type": cluster.board_type},
                {"chips": list(chips)},
            ]
            for card, chips in enumerate(cluster.boards)
        ],
    }
    if cluster.chip_coordinates:  # x, y, rack, shelf
        document["chips"] = {number: [x, y, 0, 0] for number, (x, y) in enumerate(cluster.chip_coordinates)}
    if cluster.buses:
        document["chip_to_bus_id"] = {number: f"0x{bus:04x}" for number, bus in enumerate(cluster.buses)}
    if len(cluster.chips) > 1:
        place = {chip: (card, slot) for card, chips in enumerate(cluster.boards) for slot, chip in enumerate(chips)}
        document["asic_locations"] = {number: place[number][1] for number in numbers}
        document["chip_unique_ids"] = {
            number: ((place[number][1] + 1) << 56) + place[number][0] + 1 for number in numbers
        }
    return json.dumps(document, separators=(", ", " : "))
