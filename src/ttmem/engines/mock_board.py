# SPDX-License-Identifier: Apache-2.0
"""Mock boards: cluster descriptors as small as the library accepts, and a compiler that compiles nothing.

No kernel ever runs on a mock, but the library insists on building them. The stub compiler answers every call with the
same RISC-V executable of one instruction. Its script uses shell built-ins alone, because the library starts it some
twenty times per open and ten times per new program, from several threads.
"""

import json
import struct

from ttmem.base.errors import BadInputError
from ttmem.hardware import BOARDS, Board, Mock

_PRODUCT_SHIFT = 36
"""The library reads the product from bits 36 and up of a board's id."""


def list_mock_boards() -> tuple[str, ...]:
    return tuple(board.name for board in BOARDS if board.mock)


def require_mock(board: Board) -> Mock:
    """Return the board's mock, or refuse a board without one."""
    if board.mock is None:
        raise BadInputError(
            f"no mock of board '{board.name}'", hint=f"there are mocks of {', '.join(list_mock_boards())}"
        )
    return board.mock


def compute_chip_ids(board: Board, number: int = 0) -> dict[int, int]:
    """Return the chips' unique ids; they are unique on this machine when the number is (below 2^32)."""
    mock = require_mock(board)
    if board.chips == 1:
        return {0: number} if number else {}
    place = {chip: (card, slot) for card, chips in enumerate(mock.cards) for slot, chip in enumerate(chips)}
    return {chip: ((slot + 1) << 56) + (number << 16) + card + 1 for chip, (card, slot) in sorted(place.items())}


def build_cluster_descriptor(board: Board, number: int = 0) -> str:
    """Return the descriptor's text. The library expects YAML; JSON with a blank before each colon is valid YAML too."""
    mock = require_mock(board)
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
    if ids := compute_chip_ids(board, number):
        document["chip_unique_ids"] = ids
    return json.dumps(document, separators=(", ", " : "))


_TEXT_ADDRESS = 0x1000
_RETURN = 0x00008067
_HEADER_BYTES, _SEGMENT_BYTES, _SECTION_BYTES = 52, 32, 40
_EXECUTABLE, _RISCV = 2, 243
_PROGBITS, _SYMTAB, _STRTAB, _RELA = 1, 2, 3, 4


def build_stub_executable() -> bytes:
    """Build the smallest file that the kernel loader accepts: it wants a symbol table and a relocation section too."""
    names = b"\0.text\0.rela.text\0.symtab\0.strtab\0.shstrtab\0"
    text = struct.pack("<I", _RETURN)
    nothing_to_relocate = struct.pack("<IIi", _TEXT_ADDRESS, 1 << 8, 0)
    symbols = bytes(16) + struct.pack("<IIIBBH", 1, _TEXT_ADDRESS, len(text), 0x12, 0, 1)
    # name, kind, flags, address, content, link, info, alignment, entry size
    sections = (
        (b".text", _PROGBITS, 0x6, _TEXT_ADDRESS, text, 0, 0, 4, 0),
        (b".rela.text", _RELA, 0x40, 0, nothing_to_relocate, 3, 1, 4, 12),
        (b".symtab", _SYMTAB, 0, 0, symbols, 4, 1, 4, 16),
        (b".strtab", _STRTAB, 0, 0, b"\0_start\0", 0, 0, 1, 0),
        (b".shstrtab", _STRTAB, 0, 0, names, 0, 0, 1, 0),
    )
    body, table = bytearray(), bytearray(_SECTION_BYTES)
    first = _HEADER_BYTES + _SEGMENT_BYTES
    text_offset = first
    for name, kind, flags, address, content, link, info, alignment, entry in sections:
        body += bytes(-(first + len(body)) % 4)
        offset, name_at = first + len(body), names.index(b"\0" + name + b"\0") + 1
        table += struct.pack("<10I", name_at, kind, flags, address, offset, len(content), link, info, alignment, entry)
        body += content
    body += bytes(-(first + len(body)) % 4)
    identity = b"\x7fELF\x01\x01\x01".ljust(16, b"\0")
    header = identity + struct.pack("<HHIIII", _EXECUTABLE, _RISCV, 1, _TEXT_ADDRESS, _HEADER_BYTES, first + len(body))
    counts = (1, _SECTION_BYTES, len(sections) + 1, len(sections))
    header += struct.pack("<IHHHHHH", 0, _HEADER_BYTES, _SEGMENT_BYTES, *counts)
    segment = struct.pack("<8I", 1, text_offset, _TEXT_ADDRESS, _TEXT_ADDRESS, len(text), len(text), 5, 4)
    return bytes(header + segment + body + table)


def build_stub_compiler() -> str:
    """Return the compiler's script: it writes the file named by ``-o``, and for objects the dependency file."""
    octal = "".join(f"\\{byte:03o}" for byte in build_stub_executable())
    return f"""#!/bin/sh
case $1 in --version) echo "compiles nothing"; exit 0;; esac
output= dependencies= before=
for word do
  case $before in
    -o) output=$word;;
    -MF) dependencies=$word;;
  esac
  before=$word
done
[ -n "$output" ] || exit 0
printf '{octal}' > "$output"
case $output in *.o) echo "$output:" > "${{dependencies:-${{output%.o}}.d}}";; esac
exit 0
"""
