# SPDX-License-Identifier: Apache-2.0
"""``ttrt run --memory`` (and tt-mlir's builder): memory results in JSON."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ttmem.readers.byte_source import Head

if TYPE_CHECKING:
    from ttmem.profile import Profile
    from ttmem.readers.registry import ReadOptions

KIND = "ttrt-memory"
TITLE = "memory results of ttrt (memory_results.json)"
_MARK = re.compile(rb'"debug_str"\s*:')


def sniff(head: Head) -> bool:
    """JSON with entries of operations in it."""
    return head.content.lstrip()[:1] in (b"{", b"[") and _MARK.search(head.content) is not None


def read(source: str | Path, options: ReadOptions) -> Profile:
    """The memory history in the results."""
    from ttmem.readers.ttrt.results import read_ttrt

    return read_ttrt(source, name=options.name)
