# SPDX-License-Identifier: Apache-2.0
"""Small C++ programs for the tests of the scan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

pytest.importorskip("tree_sitter_cpp", reason="the C++ grammar is not installed: pip install 'ttmem[cpp]'")

from support.command_line import ROOT
from ttmem.circular_buffers.scan.cpp.arithmetic import Value
from ttmem.circular_buffers.scan.files import scan_text
from ttmem.circular_buffers.scan.host.programs import Sized
from ttmem.circular_buffers.scan.model import FileScan
from ttmem.circular_buffers.scan.scanning import Scan, assess, scan
from ttmem.hardware import open_board

DATA = ROOT / "tests" / "data" / "cb"


def scan_code(code: str, name: str = "code.cpp") -> FileScan:
    """One file's worth of text."""
    return scan_text(dedent(code).encode(), name, {})


def buffers(code: str, **bindings: Value) -> list[Sized]:
    """The buffers of all programs in some code."""
    found = assess(".", [scan_code(code)], bindings=bindings, memory_map=open_board("n150"))
    return [one for program in found.programs for one in program.buffers]


def sizes(code: str, **bindings: Value) -> list[int | None]:
    """Their bytes."""
    return [one.total_bytes for one in buffers(code, **bindings)]


def write_program(folder: Path, files: Mapping[str, str]) -> Path:
    """Files of a program, by name."""
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(dedent(text))
    return folder


def scan_folder(folder: Path, *, l1_tensor_bytes: int = 0, **bindings: Value) -> Scan:
    """A folder against an n150."""
    board = open_board("n150")
    return scan(folder, bindings=bindings, memory_map=board, l1_tensor_bytes=l1_tensor_bytes, jobs=1)


def rules_in(found: Scan) -> list[str]:
    """Which rules a scan says are broken."""
    return sorted({one.rule for one in found.findings})


def host(body: str) -> str:
    """A function around some statements."""
    return f"void build(Program& program, const CoreRangeSet& cores, uint32_t n, bool wide) {{\n{dedent(body)}\n}}\n"


def config(total: str, *, index: str = "0", page: str = "2048", data_format: str = "Float16_b") -> str:
    """One declaration."""
    made = (
        f"CircularBufferConfig({total}, {{{{{index}, tt::DataFormat::{data_format}}}}}).set_page_size({index}, {page})"
    )
    return f"CreateCircularBuffer(program, cores, {made});"
