# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem fit --list --json`` says, and ``atlas.json`` of its folder."""

from collections.abc import Sequence

from ttmem.prediction.model_matrix import AtlasRow
from ttmem.reports.kit.documents import Document


class AtlasDocument(Document, frozen=True, tag_field="schema", tag="ttmem.atlas/1"):
    """Many models on many boards."""

    models: int
    boards: list[str]
    fits: int
    does_not_fit: int
    not_known: int
    rows: list[AtlasRow]


def document(rows: Sequence[AtlasRow]) -> AtlasDocument:
    """In the order of the list."""
    return AtlasDocument(
        models=len({row.model for row in rows}),
        boards=list(dict.fromkeys(row.board for row in rows)),
        fits=sum(row.fits is True for row in rows),
        does_not_fit=sum(row.fits is False for row in rows),
        not_known=sum(row.fits is None for row in rows),
        rows=list(rows),
    )
