# SPDX-License-Identifier: Apache-2.0
"""What typed documents have in common: fields in the order of the answer, keyword arguments, no change afterwards."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

__all__ = ["UNSET", "Document", "UnsetType"]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a JSON answer. A field that is UNSET is left out of it.

    A whole answer begins with ``schema: Literal["ttmem.NAME/1"] = "ttmem.NAME/1"`` and stands in
    ``reports/documents.py``.
    """

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, texts and numbers."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain
