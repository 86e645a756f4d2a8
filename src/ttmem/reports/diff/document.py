# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem diff --json`` says: a contract, keys may be added."""

from __future__ import annotations

from typing import Any

from ttmem.analysis.diff import MemoryChange, MemoryDiff, TensorChange
from ttmem.profile import TensorType

SCHEMA = "ttmem.diff/1"


def document(diff: MemoryDiff, regression: bool) -> dict[str, Any]:
    """``before`` and ``after`` are peaks in bytes per bank; ``grew`` begins with the first suspect."""
    return {
        "schema": SCHEMA,
        "before": diff.before_name,
        "after": diff.after_name,
        "memories": {memory: _memory(change) for memory, change in diff.memories.items()},
        "grew": [_tensor(change) for change in diff.grew],
        "shrank": [_tensor(change) for change in diff.shrank],
        "operation_counts": [
            {"name": change.name, "before": change.before, "after": change.after} for change in diff.operation_counts
        ],
        "regression": regression,
    }


def _memory(change: MemoryChange) -> dict[str, Any]:
    return {
        "before": change.before_bytes_per_bank,
        "after": change.after_bytes_per_bank,
        "delta_bytes_per_bank": change.delta_bytes_per_bank,
        "delta_percent": None if change.delta_percent is None else round(change.delta_percent, 4),
        "unattributed_delta_bytes_per_bank": change.unattributed_delta_bytes_per_bank,
        "error_bytes_per_bank": change.error_bytes,
        "peak_moved": _cause(change, first=True) != _cause(change, first=False),
        "caused_by_before": _cause(change, first=True),
        "caused_by_after": _cause(change, first=False),
    }


def _cause(change: MemoryChange, *, first: bool) -> dict[str, Any] | None:
    peak = change.before_peak if first else change.after_peak
    if peak is None or peak.caused_by_index is None:
        return None
    return {"index": peak.caused_by_index, "name": peak.caused_by_name, "location": peak.caused_by_location}


def _tensor(change: TensorChange) -> dict[str, Any]:
    return {
        "tensor": change.tensor,
        "operation": {
            "index": change.operation_index,
            "name": change.operation_name,
            "location": change.location,
            "program": change.program,
        },
        "delta_bytes": change.delta_bytes,
        "delta_bytes_per_bank": change.delta_bytes_per_bank,
        "memory": change.memory,
        "reason": change.reason,
        "before": _type(change.before),
        "after": _type(change.after),
    }


def _type(found: TensorType | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"shape": list(found.shape), "dtype": found.dtype, "bytes": found.padded_bytes}
