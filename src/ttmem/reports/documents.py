# SPDX-License-Identifier: Apache-2.0
"""Every document that ``--json`` answers with: schema id -> where its type is; the schema files are made from this.

A document is a contract. Keys may be added, never renamed or removed; a change that breaks a reader gets a new number.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

DOCUMENTS: dict[str, str] = {
    "ttmem.profile/1": "ttmem.reports.profile.document:ProfileDocument",
    "ttmem.diff/1": "ttmem.reports.diff.document:DiffDocument",
    "ttmem.check/1": "ttmem.reports.check.document:CheckDocument",
    "ttmem.explanation/1": "ttmem.reports.explain.document:Explanation",
}
"""Names, not types: looking a document up loads its module and no other."""


def document_type(schema: str) -> Any:
    """The type of a document."""
    module, _, name = DOCUMENTS[schema].partition(":")
    return getattr(import_module(module), name)
