# SPDX-License-Identifier: Apache-2.0
"""What a report is made of: the summary, what would pass instead, and where it all comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ttmem.results import Result
from ttmem.sweep.summary import Summary


@dataclass(frozen=True, slots=True)
class Findings:
    """Plain data; every report file is drawn from this."""

    summary: Summary
    generated: str
    """When, in the words of the report."""
    source: str
    """What it was made from."""
    advice: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """By result name: things that pass, as ``Advice.to_json`` writes them."""
    advice_from: str = ""
    """Which engine and board the advice was asked of."""
    unadvised: int = 0
    """Memory failures that no advice was asked for, because they were too many or their shape is not known."""

    def advice_for(self, result: Result) -> Sequence[Mapping[str, Any]]:
        return self.advice.get(result.name, ())
