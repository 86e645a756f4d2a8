# SPDX-License-Identifier: Apache-2.0
"""Cluster descriptors for boards that are not there: the least that the library accepts, from the board's record."""

import json

from ttmem._errors import BadInputError
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


def descriptor(board: Board) -> str:
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
            number: {"noc_translation": True, "harvest_mask": chip.tensix_mask, **dict(chip.more_masks)}
            for number, chip in enumerate(mock.chips)
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
        document["chips"] = {number: [x, y, 0, 0] for number, (x, y) in enumerate(mock.chip_coordinates)}
    if mock.buses:
        document["chip_to_bus_id"] = {number: f"0x{bus:04x}" for number, bus in enumerate(mock.buses)}
    if board.chips > 1:
        place = {chip: (card, slot) for card, chips in enumerate(mock.cards) for slot, chip in enumerate(chips)}
        document["asic_locations"] = {number: place[number][1] for number in numbers}
        document["chip_unique_ids"] = {
            number: ((place[number][1] + 1) << 56) + place[number][0] + 1 for number in numbers
        }
    return json.dumps(document, separators=(", ", " : "))
