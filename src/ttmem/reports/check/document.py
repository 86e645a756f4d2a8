# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem check --json`` says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ttmem.analysis.budget import Verdict

SCHEMA = "ttmem.check/1"


def document(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """``ok`` is the answer; every verdict carries its figures and the operation to look at."""
    return {
        "schema": SCHEMA,
        "ok": all(verdict.ok for verdict in verdicts),
        "verdicts": [
            {
                "rule": verdict.rule,
                "ok": verdict.ok,
                "memory": verdict.memory or None,
                "measured": verdict.measured if math.isfinite(verdict.measured) else None,
                "limit": verdict.limit,
                "unit": verdict.unit,
                "message": verdict.message,
                "operation": {
                    "index": verdict.operation_index,
                    "name": verdict.operation_name,
                    "location": verdict.location,
                }
                if verdict.operation_index is not None
                else None,
                "line": verdict.line,
            }
            for verdict in verdicts
        ],
    }
