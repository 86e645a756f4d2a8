# SPDX-License-Identifier: Apache-2.0
"""Every document that ``--json`` answers with, by its schema: the list is the files ``reports/<subject>/document.py``.

A document is a contract. Keys may be added, never renamed or removed; a change that breaks a reader gets a new number.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path

from ttmem.reports.kit.documents import Document


def documents() -> dict[str, type[Document]]:
    """Schema -> type of the document, in the order of the schemas."""
    for module in Path(__file__).parent.glob("*/document.py"):
        importlib.import_module(f"ttmem.reports.{module.parent.name}.document")
    found = {str(one.__struct_config__.tag): one for one in _whole(Document)}
    return dict(sorted(found.items()))


def _whole(document: type[Document]) -> Iterator[type[Document]]:
    """The descendants that are whole answers, not parts of one."""
    for one in document.__subclasses__():
        if one.__struct_config__.tag_field == "schema":
            yield one
        yield from _whole(one)
