# SPDX-License-Identifier: Apache-2.0
"""Lets the published ttnn wheel open a board that is not there.

Three things are needed, all kept in one private folder: a runtime root whose kernel "compiler" answers every call with
the same do-nothing ELF (nothing executes on a mock), a cluster descriptor, and the variables that name them. They must
be set before ttnn is loaded, and a process can open one cluster only.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path

TEXT_ADDRESS = 0x1000
RETURN_INSTRUCTION = 0x00008067


@dataclass(frozen=True)
class Cluster:
    """What a cluster descriptor has to say about one kind of board."""

    arch: str
    board_type: str
    product_code: int
    harvest_mask: int
    chips: int = 1
    other_masks: dict[str, int] = field(default_factory=dict)
    links: tuple[tuple[int, int, int, int], ...] = ()


_P150_MASKS = {"eth_harvesting_mask": 0b1_0010_0000, "pcie_harvesting_mask": 0b10}
_P100_MASKS = {"eth_harvesting_mask": 0x3FFF, "pcie_harvesting_mask": 0b10, "dram_harvesting_mask": 0b1000}
CLUSTERS = {
    "n150": Cluster("wormhole_b0", "n150", 0x18, 0b100_0000),
    "n300": Cluster("wormhole_b0", "n300", 0x14, 0b1100_0000, chips=2, links=((0, 8, 1, 0), (0, 9, 1, 1))),
    "galaxy-chip": Cluster("wormhole_b0", "n150", 0x18, 0),
    "p100": Cluster("blackhole", "p100", 0x43, 0b1100_0000, other_masks=_P100_MASKS),
    "p150": Cluster("blackhole", "p150", 0x40, 0b1100_0000, other_masks=_P150_MASKS),
    "quasar": Cluster("quasar", "quasar", 0x50, 0),
    "p150-one-column": Cluster("blackhole", "p150", 0x40, 0b1000_0000, other_masks=_P150_MASKS),
}


def descriptor(cluster: Cluster) -> str:
    """The smallest descriptor the library accepts; JSON is valid YAML."""
    chips = list(range(cluster.chips))
    document: dict[str, object] = {
        "arch": dict.fromkeys(chips, cluster.arch),
        "chips_with_mmio": [{0: 0}],
        "ethernet_connections": [
            [{"chip": a, "chan": a_channel}, {"chip": b, "chan": b_channel}]
            for a, a_channel, b, b_channel in cluster.links
        ],
        "harvesting": {
            chip: {"noc_translation": True, "harvest_mask": cluster.harvest_mask, **cluster.other_masks}
            for chip in chips
        },
        # The library reads the product from bits 36 and up of the board id.
        "boards": [[{"board_id": cluster.product_code << 36}, {"board_type": cluster.board_type}, {"chips": chips}]],
    }
    if cluster.chips > 1:
        document["chips"] = {chip: [chip, 0, 0, 0] for chip in chips}
        document["asic_locations"] = {chip: chip for chip in chips}
        document["chip_unique_ids"] = {chip: 1 + (chip << 32) for chip in chips}
    return json.dumps(document, separators=(", ", " : "))


def do_nothing_elf() -> bytes:
    """A RISC-V executable of one `ret`; the kernel loader insists on a symbol table and a relocation section."""
    section_names = b"\0.text\0.rela.text\0.symtab\0.strtab\0.shstrtab\0"
    code = struct.pack("<I", RETURN_INSTRUCTION)
    relocation = struct.pack("<IIi", TEXT_ADDRESS, 1 << 8, 0)  # type 0: nothing to relocate
    symbols = bytes(16) + struct.pack("<IIIBBH", 1, TEXT_ADDRESS, len(code), 0x12, 0, 1)
    strings = b"\0main\0"

    def name_at(name: bytes) -> int:
        return section_names.index(b"\0" + name + b"\0") + 1

    # name, type, flags, address, content, link, info, alignment, entry size
    sections = [
        (name_at(b".text"), 1, 0x6, TEXT_ADDRESS, code, 0, 0, 4, 0),
        (name_at(b".rela.text"), 4, 0x40, 0, relocation, 3, 1, 4, 12),
        (name_at(b".symtab"), 2, 0, 0, symbols, 4, 1, 4, 16),
        (name_at(b".strtab"), 3, 0, 0, strings, 0, 0, 1, 0),
        (name_at(b".shstrtab"), 3, 0, 0, section_names, 0, 0, 1, 0),
    ]
    header_bytes, segment_bytes, section_header_bytes = 52, 32, 40
    body, offsets = b"", []
    for section in sections:
        body += bytes(-(header_bytes + segment_bytes + len(body)) % 4)
        offsets.append(header_bytes + segment_bytes + len(body))
        body += section[4]
    body += bytes(-len(body) % 4)
    table = bytes(section_header_bytes)
    for (name, kind, flags, address, content, link, info, alignment, entry), offset in zip(
        sections, offsets, strict=True
    ):
        table += struct.pack("<10I", name, kind, flags, address, offset, len(content), link, info, alignment, entry)
    identity = b"\x7fELF" + bytes([1, 1, 1]) + bytes(9)
    header = identity + struct.pack(
        "<HHIIIIIHHHHHH",
        2,
        243,
        1,
        TEXT_ADDRESS,
        header_bytes,
        header_bytes + segment_bytes + len(body),
        0,
        header_bytes,
        segment_bytes,
        1,
        section_header_bytes,
        len(sections) + 1,
        len(sections),
    )
    segment = struct.pack("<8I", 1, offsets[0], TEXT_ADDRESS, TEXT_ADDRESS, len(code), len(code), 5, 4)
    return header + segment + body + table


def compiler_script() -> str:
    """Shell built-ins only: the library starts this some twenty times per open and ten per new program."""
    octal = "".join(f"\\{byte:03o}" for byte in do_nothing_elf())
    return f"""#!/bin/sh
case "$1" in --version) echo "no compiler"; exit 0;; esac
out= dep= last=
for word do
  case $last in -o) out=$word;; -MF) dep=$word;; esac
  last=$word
done
[ -n "$out" ] || exit 0
printf '{octal}' > "$out"
case $out in *.o) echo "$out:" > "${{dep:-${{out%.o}}.d}}";; esac
"""


def prepare(board: str, folder: Path, package: Path) -> dict[str, str]:
    """Fill the folder (again and again, if need be) and return the variables to set before ttnn is loaded."""
    root = folder / "root"
    compiler = root / "runtime" / "sfpi" / "compiler" / "bin" / "riscv-tt-elf-g++"
    compiler.parent.mkdir(parents=True, exist_ok=True)
    script = compiler_script()
    if not compiler.exists() or compiler.read_text() != script:
        fresh = compiler.with_name(f"{compiler.name}.{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(0o755)
        fresh.replace(compiler)
    for name in ("tt_metal", "ttnn", "runtime/hw"):
        link = root / name
        if not link.is_symlink():
            with contextlib.suppress(FileExistsError):  # another process of the same run was faster
                link.symlink_to(package / name)
    description = folder / f"{board}.yaml"
    fresh = description.with_name(f"{description.name}.{os.getpid()}")
    fresh.write_text(descriptor(CLUSTERS[board]))
    fresh.replace(description)
    return {
        "TT_METAL_RUNTIME_ROOT": str(root),
        "TT_METAL_HOME": str(root),
        "TT_METAL_CACHE": str(folder / "cache"),
        "TT_METAL_LOGS_PATH": str(folder),
        "TT_METAL_MOCK_CLUSTER_DESC_PATH": str(description),
        "TT_METAL_SHM_TRACKING_DISABLED": "1",
        "OMPI_MCA_btl": "self",
        "TMPDIR": str(folder),
        "TT_LOGGER_LEVEL": "off",
        "LOGURU_LEVEL": "ERROR",
    }
