# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem replay --json`` says."""

import msgspec

from ttmem.reports.boards.document import OpenedBoard
from ttmem.reports.kit.documents import UNSET, Document, UnsetType
from ttmem.twin.errors import OutOfMemoryError
from ttmem.twin.replay import StepResult


class Step(Document, frozen=True):
    """What came of one step; a free that succeeded says nothing but ``ok``."""

    ok: bool
    address: int | UnsetType = UNSET
    """As ``tensor.buffer_address()`` gives it."""
    bytes_per_bank: int | UnsetType = UNSET
    """What the library says each bank needs to store."""
    taken_bytes_per_bank: int | UnsetType = UNSET
    """What every bank of the memory loses, after rounding."""
    warnings: tuple[str, ...] | UnsetType = UNSET
    error: str | UnsetType = UNSET
    """``oom`` or ``invalid``."""
    bytes_needed_per_bank: int | UnsetType | None = msgspec.field(name="need", default=UNSET)
    allocated_bytes_per_bank: int | UnsetType | None = msgspec.field(name="allocated", default=UNSET)
    free_bytes_per_bank: int | UnsetType | None = msgspec.field(name="free", default=UNSET)
    largest_free_bytes_per_bank: int | UnsetType | None = msgspec.field(name="largest_free", default=UNSET)
    message: str | UnsetType = UNSET


class MemoryUse(Document, frozen=True):
    """One memory after the last step, per bank."""

    banks: int
    total_bytes_per_bank: int = msgspec.field(name="bytes_per_bank")
    allocated_bytes_per_bank: int = msgspec.field(name="allocated")
    free_bytes_per_bank: int = msgspec.field(name="free")
    largest_free_bytes_per_bank: int = msgspec.field(name="largest_free")


class ReplayedScript(OpenedBoard, frozen=True, tag_field="schema", tag="ttmem.replay/1"):
    """Where every buffer of an allocation script would lie."""

    steps: tuple[Step, ...]
    memories: dict[str, MemoryUse]
    warnings: tuple[str, ...]

    @property
    def failures(self) -> list[tuple[int, Step]]:
        """The steps that failed, with their numbers from 1."""
        return [(number, step) for number, step in enumerate(self.steps, 1) if not step.ok]


_FREED = Step(ok=True)


def step(result: StepResult) -> Step:
    failure, buffer = result.failure, result.buffer
    if failure is None:
        if buffer is None:
            return _FREED
        placed = buffer.placement
        warnings = placed.warnings or UNSET
        return Step(True, buffer.address, placed.bytes_per_bank, placed.taken_bytes_per_bank, warnings)
    if isinstance(failure, OutOfMemoryError):
        return Step(
            ok=False,
            error="oom",
            bytes_needed_per_bank=failure.bytes_per_bank,
            allocated_bytes_per_bank=failure.allocated_bytes_per_bank,
            free_bytes_per_bank=failure.free_bytes_per_bank,
            largest_free_bytes_per_bank=failure.largest_free_bytes_per_bank,
            message=failure.message,
        )
    return Step(False, UNSET, UNSET, UNSET, UNSET, "invalid", None, None, None, None, failure.message)
