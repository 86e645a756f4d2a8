# SPDX-License-Identifier: Apache-2.0
"""A kernel compiler that compiles nothing: on a mock no kernel ever runs, but the library insists on building them.

It answers every call with the same RISC-V executable of one instruction. The script uses shell built-ins alone because
the library starts it some twenty times per open and ten times per new program, from several threads.
"""

import struct

_TEXT_ADDRESS = 0x1000
_RETURN = 0x00008067
_HEADER_BYTES, _SEGMENT_BYTES, _SECTION_BYTES = 52, 32, 40
_EXECUTABLE, _RISCV = 2, 243
_PROGBITS, _SYMTAB, _STRTAB, _RELA = 1, 2, 3, 4


def executable() -> bytes:
    """The smallest file that the kernel loader accepts: it wants a symbol table and a relocation section too."""
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


def script() -> str:
    """The compiler: the file named by ``-o``, and for objects the dependency file that the build reads."""
    octal = "".join(f"\\{byte:03o}" for byte in executable())
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
