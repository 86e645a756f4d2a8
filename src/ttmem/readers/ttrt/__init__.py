# SPDX-License-Identifier: Apache-2.0
"""``ttrt run --memory`` (and tt-mlir's builder): memory results in JSON."""

import re

from ttmem.base.lazy import lazy_names
from ttmem.readers.byte_source import Head

KIND = "ttrt-memory"
TITLE = "memory results of ttrt (memory_results.json)"
_MARK = re.compile(rb'"debug_str"\s*:')


def sniff(head: Head) -> bool:
    """JSON with entries of operations in it."""
    return head.content.lstrip()[:1] in (b"{", b"[") and _MARK.search(head.content) is not None


__getattr__ = lazy_names(__name__, {"read": "results"})
