# SPDX-License-Identifier: Apache-2.0
"""Peak memory while a recording goes by, and limits as people write them."""

import re
from typing import Any

from .protocol import MEMORIES

_UNITS = {"b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_LIMIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%|[a-z]+)\s*", re.IGNORECASE)


def compute_allowed_bytes(limit: object, bank_bytes: int) -> int:
    """Return the bytes per bank that a limit allows; a bare number is refused (80 of what?)."""
    matched = _LIMIT.fullmatch(str(limit))
    unit = matched[2].lower() if matched else ""
    if matched is None or (unit != "%" and unit not in _UNITS):
        raise ValueError(f"'{limit}' is not a limit: write '90%' of a bank, or bytes per bank such as '1.2MiB'")
    number = float(matched[1])
    return int(bank_bytes * number / 100 if unit == "%" else number * _UNITS[unit])


class PeakCounter:
    """Counts peaks from a recorder's messages; ``reset`` begins a new count."""

    def __init__(self) -> None:
        self.bank_bytes: dict[str, int] = {}
        self.reset()

    def reset(self) -> None:
        self.allocated: dict[str, int] = {}
        """Bytes per bank by memory, also inside operations; a memory that was not seen is missing."""
        self.l1_with_programs = 0
        """Bytes per core: tensors and program buffers together."""
        self.operations = 0
        self.unmeasured_programs = 0
        self.failed: dict[str, Any] | None = None
        """Last operation that raised: index, name, location."""
        self.begun: dict[str, Any] = {}

    def add(self, message: dict[str, Any]) -> None:
        if "state" in message:
            for memory, (_, total, allocated, _, _) in zip(MEMORIES, message["state"], strict=True):
                self.bank_bytes[memory] = total
                self._update_peak(memory, allocated)
        if "start" in message:
            location = f"{message['file']}:{message['line']}" if message["file"] else ""
            self.begun = {"index": self.operations, "name": message["name"], "location": location}
            self.operations += 1
        self.unmeasured_programs += "unmeasured" in message
        if "end" in message:
            self.failed = self.begun if "error" in message else None
        for memory, top in message.get("fullest", {}).items():
            self._update_peak(memory, top[0])
        if "l1" in message:
            self.l1_with_programs = max(self.l1_with_programs, sum(message["l1"][:-1]))

    def _update_peak(self, memory: str, allocated: int) -> None:
        self.allocated[memory] = max(self.allocated.get(memory, 0), allocated)
