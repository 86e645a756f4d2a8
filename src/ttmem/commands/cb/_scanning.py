# SPDX-License-Identifier: Apache-2.0
"""The scan of C++ code as other verbs use it: a path in, the document of ``ttmem cb scan --json`` out."""

from __future__ import annotations

from typing import Any

from ttmem.commands._progress import progress_bar


def scan_document(path: str, bindings: tuple[str, ...], *, board: str, quiet: bool) -> dict[str, Any]:
    """What the scan says of a file or folder."""
    from ttmem.circular_buffers.scan import parse_bindings, scan
    from ttmem.hardware import open_board
    from ttmem.reports.cb_scan.document import document

    with progress_bar(f"scanning {path}", quiet=quiet) as progress:
        found = scan(path, bindings=parse_bindings(bindings), memory_map=open_board(board), progress=progress)
    return document(found).to_json()
