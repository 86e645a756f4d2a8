# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem check --json`` says."""

from ttmem.analysis.budget import Verdict
from ttmem.reports.kit.documents import Document
from ttmem.reports.profile.document_parts import RunEndEntry


class CheckDocument(Document, frozen=True, tag_field="schema", tag="ttmem.check/1"):
    """``ok`` is the answer: all limits hold. One verdict per limit, in the order of the limits."""

    ok: bool
    verdicts: list[Verdict]
    ended: RunEndEntry | None = None
    """Null when the run came to its end. An end for another reason than memory breaks no limit."""
