# SPDX-License-Identifier: Apache-2.0
"""Runtime logs of tt-mlir and TT-XLA."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ttmem.readers.byte_source import Head

if TYPE_CHECKING:
    from ttmem.profile import Profile
    from ttmem.readers.registry import ReadOptions

KIND = "tt-mlir-log"
TITLE = "runtime log of tt-mlir or TT-XLA"


def sniff(head: Head) -> bool:
    """Every file, because its lines may begin anywhere in one; but not a JSON document that is named as one."""
    is_document = head.unpacked_name.endswith(".json") and head.content.lstrip()[:1] in (b"{", b"[")
    return not head.is_folder and not is_document


def read(source: str | Path, options: ReadOptions) -> Profile:
    """The memory history in a log."""
    from ttmem.readers.mlir.file import read_arguments
    from ttmem.readers.runtime_log.reader import read_runtime_log

    modules = [argument for path in options.mlir for argument in read_arguments(path)[0]]
    return read_runtime_log(source, name=options.name, jobs=options.jobs, progress=options.progress, modules=modules)
