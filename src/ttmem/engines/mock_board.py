# SPDX-License-Identifier: Apache-2.0
"""Cluster descriptors for boards that are not there: the least that the library accepts, from the board's record."""

import json

from ttmem.base.errors import BadInputError
from ttmem.hardware import BOARDS, Board, Mock

_PRODUCT_SHIFT = 36
"""The library reads the product from bits 36 and up of a board's id."""


def mocked_boards() -> tuple[str, ...]:
    """The boards that the library opens without a card."""
    return tuple(board.name for board in BOARDS if board.mock)


def mock_of(board: Board) -> Mock:
    """What the board's descriptor holds; a board without a mock is refused by name."""
    if board.mock is None:
        raise BadInputError(f"no mock of board '{board.name}'", hint=f"there are mocks of {', '.join(mocked_boards())}")
    return board.mock


def chip_ids(board: Board, number: int = 0) -> dict[int, int]:
    """What tells the chips apart, for everybody on this machine when the number is nobody else's (below 2^32)."""
    mock = mock_of(board)
    if board.chips == 1:
        return {0: number} if number else {}
    place = {chip: (card, slot) for card, chips in enumerate(mock.cards) for slot, chip in enumerate(chips)}
    return {chip: ((slot + 1) << 56) + (number << 16) + card + 1 for chip, (card, slot) in sorted(place.items())}


def descriptor(board: Board, number: int = 0) -> str:
    """The text the library reads. It expects YAML; JSON with a blank before each colon is valid YAML too."""
    mock = mock_of(board)
    numbers = range(board.chips)
    document: dict[str, object] = {
        "arch": dict.fromkeys(numbers, board.architecture.ttnn_name),
        "chips_with_mmio": [{chip: chip} for chip in mock.host_chips],
        "ethernet_connections": [
            [{"chip": a, "chan": channel_a}, {"chip": b, "chan": channel_b}]
            for a, channel_a, b, channel_b in mock.links
        ],
        "harvesting": {
            place: {"noc_translation": True, "harvest_mask": chip.tensix_mask, **dict(chip.more_masks)}
            for place, chip in enumerate(mock.chips)
        },
        "boards": [
            [
                {"board_id": (mock.product_code << _PRODUCT_SHIFT) + card},
                {"board_type": mock.card_type},
                {"chips": list(chips)},
            ]
            for card, chips in enumerate(mock.cards)
        ],
    }
    if mock.chip_coordinates:  # x, y, rack, shelf
        document["chips"] = {chip: [x, y, 0, 0] for chip, (x, y) in enumerate(mock.chip_coordinates)}
    if mock.buses:
        document["chip_to_bus_id"] = {chip: f"0x{bus:04x}" for chip, bus in enumerate(mock.buses)}
    if board.chips > 1:
        slots = {chip: slot for chips in mock.cards for slot, chip in enumerate(chips)}
        document["asic_locations"] = {chip: slots[chip] for chip in numbers}
    if ids := chip_ids(board, number):
        document["chip_unique_ids"] = ids
    return json.dumps(document, separators=(", ", " : "))
