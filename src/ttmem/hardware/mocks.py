# SPDX-License-Identifier: Apache-2.0
"""What a cluster descriptor holds of a board that is not there: harvesting, cards, links. ttnn opens a *mock* of it.

Harvesting decides the grid and so the number of L1 banks; a test holds every mock against its board's bank tables.
"""

from __future__ import annotations

from dataclasses import dataclass

Link = tuple[int, int, int, int]
"""Chip and Ethernet channel of one end, chip and channel of the other."""


@dataclass(frozen=True, slots=True)
class Chip:
    """What is harvested on a chip; masks as the library's descriptors hold them."""

    tensix_mask: int
    more_masks: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Mock:
    """What a cluster descriptor says of a board beyond its architecture and number of chips."""

    card_type: str
    product_code: int
    chips: tuple[Chip, ...]
    cards: tuple[tuple[int, ...], ...] = ((0,),)
    """Which chips sit on which card."""
    host_chips: tuple[int, ...] = (0,)
    """Chips with a PCIe link of their own."""
    links: tuple[Link, ...] = ()
    chip_coordinates: tuple[tuple[int, int], ...] = ()
    """Where each chip lies in a Wormhole box; Blackhole descriptors leave it out."""
    buses: tuple[int, ...] = ()
    """PCIe bus of each chip, where the library reads a place from it."""
    worker_dispatch: bool = False
    """Dispatch must run on worker cores, whatever the program asks for (see ``n300`` in ``boards``)."""


ONE_ROW_HARVESTED = Chip(0b100_0000)
WHOLE_CHIP = Chip(0)
_TWO_COLUMNS = 0b1100_0000
_TWO_ETHERNET = 0b1_0010_0000
P100_CHIP = Chip(
    _TWO_COLUMNS,
    (("dram_harvesting_mask", 0b1000), ("eth_harvesting_mask", 0x3FFF), ("pcie_harvesting_mask", 0b10)),
)


def blackhole_chip(*, pcie_mask: int) -> Chip:
    return Chip(_TWO_COLUMNS, (("eth_harvesting_mask", _TWO_ETHERNET), ("pcie_harvesting_mask", pcie_mask)))


P150_CHIP = blackhole_chip(pcie_mask=0b10)


def parallel(chip: int, channels: range, other: int, other_channels: range) -> tuple[Link, ...]:
    """Several links between the same two chips."""
    return tuple((chip, a, other, b) for a, b in zip(channels, other_channels, strict=True))


def t3k_links() -> tuple[Link, ...]:
    """Four cards side by side: chips 0-3 have PCIe, chip i + 4 is the remote one of the same card."""
    links: list[Link] = []
    for card in range(4):
        links += parallel(card, range(8, 10), card + 4, range(2))
    for chip, channels, other, other_channels in (
        (0, range(6, 8), 2, range(6, 8)),
        (0, range(14, 16), 1, range(14, 16)),
        (1, range(2), 3, range(2)),
        (2, range(14, 16), 3, range(14, 16)),
        (4, range(6, 8), 5, range(6, 8)),
        (6, range(6, 8), 7, range(6, 8)),
    ):
        links += parallel(chip, channels, other, other_channels)
    return tuple(links)


_TRAY_BUSES = (0xC0, 0x80, 0x00, 0x40)
GALAXY_BUSES = tuple(_TRAY_BUSES[chip // 8] + chip % 8 + 1 for chip in range(32))
"""A tray's PCIe bus and the chip's place on the tray, from 1: the library tells trays and places apart by it."""


def galaxy_links() -> tuple[Link, ...]:
    """Four trays of two rows of four chips, four links between neighbours; trays meet at the last column and row."""
    links: list[Link] = []

    def join(tray: int, place: int, channel: int, other_tray: int, other_place: int, other_channel: int) -> None:
        channels, other_channels = range(channel, channel + 4), range(other_channel, other_channel + 4)
        links.extend(parallel(tray * 8 + place, channels, other_tray * 8 + other_place, other_channels))

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


def quietbox_links() -> tuple[Link, ...]:
    """Four p150 in a ring, four links between neighbours."""
    links: list[Link] = []
    for chip, other, first in ((0, 2, 4), (0, 3, 8), (1, 3, 4), (1, 2, 8)):
        links += parallel(chip, range(first, first + 4), other, range(first, first + 4))
    return tuple(links)
