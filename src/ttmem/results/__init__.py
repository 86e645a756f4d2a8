# SPDX-License-Identifier: Apache-2.0
"""One result, one classification: what was tried (``Result``), what came of it (``Outcome``), and what a text means.

Engines, readers of other tools' tests, sweeps and reports all speak of these. The data here is plain; ``classify`` asks
``explain`` what a failure's text says.
"""

from ttmem.twin.operations import BOUNDED, EXACT, UNKNOWN
from ttmem.results.outcome import (
    FAIL,
    MEMORY_STATUSES,
    PASS,
    REAL,
    SKIPPED,
    STATUSES,
    Outcome,
)
from ttmem.results.result import Result

__all__ = [
    "BOUNDED",
    "EXACT",
    "FAIL",
    "MEMORY_STATUSES",
    "PASS",
    "REAL",
    "SKIPPED",
    "STATUSES",
    "UNKNOWN",
    "Outcome",
    "Result",
]
