# SPDX-License-Identifier: Apache-2.0
"""Why a log says nothing about memory: which build option or variable was missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ttmem._errors import BadInputError
from ttmem.profile import Timeline
from ttmem.readers.runtime_log._tokens import Kind, LexedLog

_NO_DEBUG_BUILD = (
    "operation and memory lines are compiled in only with TT_RUNTIME_DEBUG: build tt-xla with -DTT_RUNTIME_DEBUG=ON "
    "(-DCMAKE_BUILD_TYPE=Debug alone does not do it, and released wheels never have it)"
)
_NO_OPERATIONS = (
    "there are memory states but no operations, so nothing can be attributed: set TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG "
    "(on every host; it does not travel to workers by itself)"
)
_NO_STATES = (
    "there are operations but no memory states, so no peak is known: set TT_RUNTIME_MEMORY_LOG_LEVEL=operation "
    "(ttrt: --memory-log-level operation)"
)


def nothing_to_profile(log: LexedLog, *, where: str, graphs: bool, cut: str) -> BadInputError:
    """The error for a source without any operation, memory state or failure."""
    if cut:
        return BadInputError(f"nothing could be unpacked: {cut}", where=where, hint="make the file again")
    if not log.bytes:
        return BadInputError("is empty", where=where, hint="record a log with `tt-memory-profiler --log SCRIPT`")
    if not log.saw_runtime and not graphs:
        return BadInputError(
            f"no line of a tt-mlir runtime log in {log.lines:,} lines",
            where=where,
            hint="record one with `tt-memory-profiler --log SCRIPT`; if TTMLIR_RUNTIME_LOGGER_FILE is set, the lines "
            "are in that file",
        )
    seen = "module dumps" if graphs and not log.saw_runtime else "runtime lines"
    what = f"{seen}, but no operation and no memory state in {log.lines:,} lines"
    return BadInputError(what, where=where, hint=_NO_DEBUG_BUILD)


def what_is_missing(log: LexedLog, timelines: Sequence[Timeline]) -> list[str]:
    """Warnings for a log that has only half of what a profile needs."""
    operations = sum(map(len, timelines))
    states = sum(len(t.block_kind) for t in timelines)
    kinds = np.array(log.tables.kind, np.int8)
    if not operations and not states:
        return []
    if not operations:
        return [_NO_OPERATIONS]
    if not states and not np.any((kinds >= Kind.VIEW_DRAM) & (kinds <= Kind.VIEW_TRACE)):
        return [_NO_STATES]
    owned = sum(int(np.count_nonzero(t.block_operation >= 0)) for t in timelines)
    if owned and operations - owned > len(timelines):  # a source that is cut loses one state per process
        return [f"{operations - owned} of {operations} operations have no memory state of their own"]
    return []
