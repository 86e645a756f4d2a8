# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem replay``: where the buffers of an allocation script are."""

from collections.abc import Mapping, Sequence

import msgspec

from ttmem.reports.boards import OpenedBoard, format_opened_board
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import UNSET, Document, UnsetType
from ttmem.reports.kit.tables import Table, number_column, text_column
from ttmem.twin.errors import OutOfMemoryError
from ttmem.twin.replay import StepResult


class ReplayStepRow(Document, frozen=True):
    """The result of one step; a free that succeeded has ``ok`` only."""

    ok: bool
    address: int | UnsetType = UNSET
    """The value of ``tensor.buffer_address()``."""
    bytes_per_bank: int | UnsetType = UNSET
    """The bytes that the library says each bank needs to store."""
    taken_bytes_per_bank: int | UnsetType = UNSET
    """The bytes that every bank of the memory loses, after rounding."""
    warnings: Sequence[str] | UnsetType = UNSET
    error: str | UnsetType = UNSET
    """``oom`` or ``invalid``."""
    bytes_needed_per_bank: int | UnsetType | None = msgspec.field(name="need", default=UNSET)
    allocated_bytes_per_bank: int | UnsetType | None = msgspec.field(name="allocated", default=UNSET)
    free_bytes_per_bank: int | UnsetType | None = msgspec.field(name="free", default=UNSET)
    largest_free_bytes_per_bank: int | UnsetType | None = msgspec.field(name="largest_free", default=UNSET)
    message: str | UnsetType = UNSET


class MemoryUse(Document, frozen=True):
    """A memory after the last step, per bank."""

    banks: int
    total_bytes_per_bank: int = msgspec.field(name="bytes_per_bank")
    allocated_bytes_per_bank: int = msgspec.field(name="allocated")
    free_bytes_per_bank: int = msgspec.field(name="free")
    largest_free_bytes_per_bank: int = msgspec.field(name="largest_free")


class ReplayedScript(OpenedBoard, frozen=True, tag_field="schema", tag="ttmem.replay/1"):
    """The addresses of all buffers of an allocation script."""

    steps: Sequence[ReplayStepRow]
    memories: Mapping[str, MemoryUse]
    warnings: Sequence[str]

    @property
    def failures(self) -> list[tuple[int, ReplayStepRow]]:
        """The failed steps, numbered from 1."""
        return [(number, step) for number, step in enumerate(self.steps, 1) if not step.ok]


_FREED = ReplayStepRow(ok=True)


def build_step(result: StepResult) -> ReplayStepRow:
    failure, buffer = result.failure, result.buffer
    if failure is None:
        if buffer is None:
            return _FREED
        placed = buffer.placement
        warnings = placed.warnings or UNSET
        return ReplayStepRow(True, buffer.address, placed.bytes_per_bank, placed.taken_bytes_per_bank, warnings)
    if isinstance(failure, OutOfMemoryError):
        return ReplayStepRow(
            ok=False,
            error="oom",
            bytes_needed_per_bank=failure.bytes_per_bank,
            allocated_bytes_per_bank=failure.allocated_bytes_per_bank,
            free_bytes_per_bank=failure.free_bytes_per_bank,
            largest_free_bytes_per_bank=failure.largest_free_bytes_per_bank,
            message=failure.message,
        )
    return ReplayStepRow(False, UNSET, UNSET, UNSET, UNSET, "invalid", None, None, None, None, failure.message)


_MOST_FAILURES = 10


def render_terminal(script: ReplayedScript, *, width: int = 100, color: bool = False) -> str:
    """Render the first failures in the library's own words, and the memories at the end."""
    failed = script.failures
    lines = [
        f"{len(script.steps):,} steps on {format_opened_board(script)}",
        f"{len(failed):,} failed" if failed else "all succeeded",
        *(f"  step {number}: {step.message}" for number, step in failed[:_MOST_FAILURES]),
    ]
    if len(failed) > _MOST_FAILURES:
        lines.append(f"  and {len(failed) - _MOST_FAILURES:,} more (--json lists all)")
    columns = [text_column("per bank, B"), *map(number_column, ("allocated", "free", "largest free"))]
    rows = [
        (name, use.allocated_bytes_per_bank, use.free_bytes_per_bank, use.largest_free_bytes_per_bank)
        for name, use in script.memories.items()
        if use.total_bytes_per_bank
    ]
    report = TextReport(width, color=color)
    report.print(*lines, "", Table(columns, rows))
    return report.render()
