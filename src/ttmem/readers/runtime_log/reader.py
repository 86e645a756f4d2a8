# SPDX-License-Identifier: Apache-2.0
"""tt-mlir / TT-XLA runtime logs: the operations that ran and the memory states printed before them."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ttmem.base.errors import BadInputError
from ttmem.base.limits import FAILURES_READ, FAILURES_READ_LAST, RANKS
from ttmem.profile.model import UNREAD, Argument, Profile, Source, Timeline
from ttmem.readers.byte_source import OpenedSource, Progress, TruncatedSourceError
from ttmem.readers.mlir._module import read_module, registry
from ttmem.readers.registry import ReadOptions
from ttmem.readers.runtime_log import KIND
from ttmem.readers.runtime_log._lexer import Lexer
from ttmem.readers.runtime_log._parallel import lex_in_parallel, worth_splitting
from ttmem.readers.runtime_log._tokens import Kind, LexedLog
from ttmem.readers.runtime_log._unread import unread_figures, warnings_of
from ttmem.readers.runtime_log.build_timelines import RANKS_LEFT_OUT, assemble

PRINTED_ERROR_BYTES = 525
"""Views print MiB with three decimals: half of 0.001 MiB, rounded up."""
_NO_DEBUG_BUILD = (
    "operation and memory lines are compiled in only with TT_RUNTIME_DEBUG: build tt-xla with -DTT_RUNTIME_DEBUG=ON "
    "(-DCMAKE_BUILD_TYPE=Debug alone does not do it, and released wheels never have it)"
)
NO_RUNTIME_LINES = (
    "`tt-memory-profiler SCRIPT` switches the lines on (TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG, "
    "TT_RUNTIME_MEMORY_LOG_LEVEL=operation); they come from the tt-mlir runtime alone, built with "
    "-DTT_RUNTIME_DEBUG=ON, and go to TTMLIR_RUNTIME_LOGGER_FILE if that is set; a ttnn script: `ttmem run SCRIPT`"
)
_NO_OPERATIONS = (
    "there are memory states but no operations, so nothing can be attributed: set TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG "
    "(on every host; it does not travel to workers by itself)"
)
_NO_STATES = (
    "there are operations but no memory states, so no peak is known: set TT_RUNTIME_MEMORY_LOG_LEVEL=operation "
    "(ttrt: --memory-log-level operation)"
)


def read(source: str | Path, options: ReadOptions) -> Profile:
    """The memory history in a log; a damaged or cut log gives what it holds, with warnings."""
    modules = [argument for path in options.mlir for argument in read_module(path).arguments]
    parts = worth_splitting(source, options.jobs)
    cut, left_out, unread_rest = "", tuple[str, ...](), tuple[str, ...]()
    with _without_garbage_collection():
        if parts:
            log = lex_in_parallel(Path(source), parts, options.progress)
        else:
            log, cut, left_out, unread_rest = _lex(source, options.progress)
    where = str(source)
    return profile_of(
        log, name=options.name, where=where, cut=cut, left_out=left_out, unread_rest=unread_rest, modules=modules
    )


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Lexing makes millions of short-lived tuples and no cycles: looking for cycles among them is wasted time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


_RUN_MARKS = (b"xecution of program: ",)
"""A small program in a loop may print the same text a hundred thousand times, and each of its runs counts."""


def _lex(source: str | Path, progress: Progress | None) -> tuple[LexedLog, str, tuple[str, ...], tuple[str, ...]]:
    lexer = Lexer()
    cut = ""
    with OpenedSource(source, counted=_RUN_MARKS) as opened:
        try:
            for chunk in opened.chunks(progress):
                lexer.take(chunk)
        except TruncatedSourceError as error:
            cut = error.reason
    return lexer.finish(), cut, opened.remarks, opened.unread_rest


def _registered(log: LexedLog) -> Iterator[Argument]:
    """The arguments of every graph; a dump may repeat lines of an earlier one, and every rank prints its own."""
    kinds = np.array(log.tables.kind, np.int8)[log.token]
    codes = log.token[kinds == Kind.MODULE]
    items = np.array(log.tables.payload, np.int32)[codes]
    ranks = np.array(log.tables.rank, np.int32)[codes]
    for rank in np.unique(ranks).tolist()[:RANKS]:
        yield from registry([log.tables.modules[item] for item in items[ranks == rank].tolist()])


def profile_of(
    log: LexedLog,
    *,
    name: str,
    where: str,
    cut: str = "",
    left_out: Sequence[str] = (),
    unread_rest: Sequence[str] = (),
    modules: Sequence[Argument] = (),
    allow_empty: bool = False,
) -> Profile:
    """A lexed log as a Profile; raises when there is nothing about a device in it."""
    timelines, found = assemble(log)
    facts: dict[str, Any] = dict(found)
    arguments = (*_registered(log), *modules)
    if not log.saw_marker and not any(log.tables.failures) and not allow_empty:
        raise _nothing_to_profile(log, where=where, graphs=bool(arguments), cut=cut)
    damage = [f"the packed source is damaged: {cut}; what it held before is used"] if cut else []
    incomplete = [*damage, *left_out]
    ranks = facts.pop(RANKS_LEFT_OUT, "")
    of_ranks = [f"lines of {ranks} more ranks were left out: {RANKS} are kept apart"] if ranks else []
    unread = unread_figures(log, timelines, where=where, left_out=[*damage, *unread_rest, *of_ranks])
    if unread and not log.tables.view_parts and not any(log.tables.failures) and not allow_empty:
        raise _no_figure_was_read(unread, where=where)
    if unread:
        facts[UNREAD] = unread
    warnings = [*incomplete, *_what_is_missing(log, timelines), *warnings_of(log)]
    if log.unread_failures:
        read = f"of each kind the first {FAILURES_READ} and the last {FAILURES_READ_LAST} are read"
        warnings.append(f"{log.unread_failures:,} lines that look like failures were left out: {read}")
    warnings += of_ranks
    warnings += [f"line {line}: {what}" for line, what in log.damaged[:10]]
    if log.damaged_count > 10:
        warnings.append(f"{log.damaged_count - 10} more damaged lines")
    return Profile(
        name=name,
        source=Source(
            kind=KIND,
            name=where,
            bytes=log.bytes,
            lines=log.lines,
            unrecognised_lines=log.damaged_count,
            warnings=tuple(warnings),
            state_error_bytes=PRINTED_ERROR_BYTES,
        ),
        tensor_types=tuple(log.tables.types),
        forms=log.tables.forms(),
        views=log.tables.views(),
        timelines=tuple(timelines),
        arguments=arguments,
        facts=facts,
    )


def _no_figure_was_read(unread: Mapping[str, Mapping[str, Any]], *, where: str) -> BadInputError:
    return BadInputError(
        "; ".join(str(entry["text"]) for entry in unread.values()),
        where=where,
        hint="no memory figure is left: the lines were cut, or their numbers were rewritten; record the log again into "
        "a file, without a terminal or filter in between",
    )


def _nothing_to_profile(log: LexedLog, *, where: str, graphs: bool, cut: str) -> BadInputError:
    """The error for a source without any operation, memory state or failure."""
    if cut:
        what = "nothing to profile was unpacked" if log.bytes else "nothing could be unpacked"
        return BadInputError(f"{what}: {cut}", where=where, hint="make the file again")
    if not log.bytes:
        return BadInputError("is empty", where=where, hint="record a log with `tt-memory-profiler --log SCRIPT`")
    if not log.saw_runtime and not graphs:
        return BadInputError(
            f"no line of a tt-mlir runtime log in {log.lines:,} lines",
            where=where,
            hint=NO_RUNTIME_LINES,
        )
    seen = "module dumps" if graphs and not log.saw_runtime else "runtime lines"
    what = f"{seen}, but no operation and no memory state in {log.lines:,} lines"
    return BadInputError(what, where=where, hint=_NO_DEBUG_BUILD)


def _what_is_missing(log: LexedLog, timelines: Sequence[Timeline]) -> list[str]:
    """Warnings for a log that has only half of what a profile needs."""
    operations = sum(map(len, timelines))
    states = sum(len(t.state_kind) for t in timelines)
    kinds = np.array(log.tables.kind, np.int8)
    if not operations and not states:
        return []
    if not operations:
        return [_NO_OPERATIONS]
    if not states and not np.any((kinds >= Kind.VIEW_DRAM) & (kinds <= Kind.VIEW_TRACE)):
        return [_NO_STATES]
    owned = sum(int(np.count_nonzero(t.state_operation >= 0)) for t in timelines)
    if owned and operations - owned > len(timelines):  # a source that is cut loses one state per process
        return [f"{operations - owned} of {operations} operations have no memory state of their own"]
    return []
