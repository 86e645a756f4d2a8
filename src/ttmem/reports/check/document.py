# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem check --json`` says."""

from ttmem.analysis.budget import Verdict
from ttmem.reports.kit.documents import Document


class CheckDocument(Document, frozen=True, tag_field="schema", tag="ttmem.check/1"):
    """``ok`` is the answer: all limits hold. One verdict per limit, in the order of the limits."""

    ok: bool
    verdicts: list[Verdict]
