# SPDX-License-Identifier: Apache-2.0
"""The fullest moments of a stretch of a recording, kept as its messages go by."""

from __future__ import annotations

from typing import Any

from .protocol import MEMORIES


class Peaks:
    """Takes a recorder's messages; ``reset`` begins a new stretch."""

    def __init__(self) -> None:
        self.bank_bytes: dict[str, int] = {}
        self.reset()

    def reset(self) -> None:
        """Forget the moments so far; a device that is open stays known."""
        self.allocated: dict[str, int] = {}
        """Bytes per bank by memory, moments inside operations included; a memory that was not seen is missing."""
        self.l1_with_programs = 0
        """Bytes per core: tensors and the programs' own buffers together."""
        self.operations = 0
        self.unmeasured = 0

    def hear(self, message: dict[str, Any]) -> None:
        """One message of the recorder."""
        if "state" in message:
            for memory, (_, total, allocated, _, _) in zip(MEMORIES, message["state"], strict=True):
                self.bank_bytes[memory] = total
                self._see(memory, allocated)
        if "start" in message:
            self.operations += 1
        for memory, top in message.get("fullest", {}).items():
            self._see(memory, top[0])
        if "l1" in message:
            *parts, measured = message["l1"]
            self.l1_with_programs = max(self.l1_with_programs, sum(parts))
            self.unmeasured += not measured

    def _see(self, memory: str, allocated: int) -> None:
        self.allocated[memory] = max(self.allocated.get(memory, 0), allocated)
