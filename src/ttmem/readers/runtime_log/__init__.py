# SPDX-License-Identifier: Apache-2.0
"""Runtime logs of tt-mlir and TT-XLA."""

from ttmem.base.lazy import lazy_names
from ttmem.readers.byte_source import Head

KIND = "tt-mlir-log"
TITLE = "runtime log of tt-mlir or TT-XLA"


def sniff(head: Head) -> bool:
    """True for every file, because log lines may begin anywhere; but not for a JSON document that is named as one."""
    is_document = head.unpacked_name.endswith(".json") and head.content.lstrip()[:1] in (b"{", b"[")
    return not head.is_folder and not is_document


__getattr__ = lazy_names(__name__, {"read": "reader"})
