# SPDX-License-Identifier: Apache-2.0
"""tt-mlir / TT-XLA runtime logs, complete or still growing: operations and the memory states printed before them."""

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ttmem.base.errors import BadInputError
from ttmem.base.limits import FAILURES_READ, FAILURES_READ_LAST, RANKS
from ttmem.profile.model import (
    MEMORIES,
    UNREAD,
    VIEW_ALLOCATED,
    VIEW_FREE,
    VIEW_LARGEST_FREE,
    VIEW_TOTAL,
    GraphArgument,
    Profile,
    Source,
    Timeline,
)
from ttmem.readers.byte_source import OpenedSource, Progress, TruncatedSourceError, chunks
from ttmem.readers.mlir.module_dump import collect_arguments, read_module
from ttmem.readers.registry import ReadOptions
from ttmem.readers.runtime_log import KIND
from ttmem.readers.runtime_log._lexer import Lexer
from ttmem.readers.runtime_log._parallel import lex_in_parallel, worth_splitting
from ttmem.readers.runtime_log._tokens import Kind, LexedLog
from ttmem.readers.runtime_log.build_timelines import RANKS_LEFT_OUT, assemble
from ttmem.readers.unpacking import PACKED_MAGIC
from ttmem.readers.wrappings import SNIFFED_BYTES, Unwrapper, find_unwrapper

_LINES_NAMED = 3
_ADDS_UP_BYTES = 2_600
"""Half of 0.001 MiB for each of the figures that are added up, and as much again."""
_ANY = ""


def describe_unread_figures(
    log: LexedLog, timelines: Sequence[Timeline], *, where: str, left_out: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Describe by memory (``""``: any of them) which of its figures could not be read, with the lines."""
    lines = {memory: list(numbers) for memory, numbers in log.unread.items()}
    contradictions = _contradictions(log)
    for memory, numbers in contradictions.items():
        lines[memory] = sorted([*lines.get(memory, ()), *numbers])
    if _ANY not in lines:
        lines |= _gaps(timelines, lines)
    texts = {memory: _sentence(memory, numbers, where) for memory, numbers in lines.items()}
    if left_out:
        texts[_ANY] = "; ".join([*left_out, *([texts[_ANY]] if _ANY in texts else [])])
    return {memory: {"text": text, "contradicts": memory in contradictions} for memory, text in texts.items()}


def describe_contradictions(log: LexedLog) -> list[str]:
    """A warning for each figure that was used although it contradicts the others of its line; at most a few."""
    found = [(line, memory) for memory, lines in _contradictions(log).items() for line in lines]
    return [f"line {line}: the figures of {memory} do not add up" for line, memory in sorted(found)[:_LINES_NAMED]]


def _sentence(memory: str, lines: Sequence[int], where: str) -> str:
    named = ", ".join(f"{where}:{line}" for line in lines[:_LINES_NAMED])
    more = f" and {len(lines) - _LINES_NAMED:,} more" if len(lines) > _LINES_NAMED else ""
    what = f"memory line{'s' if len(lines) > 1 else ''}{f' of {memory}' if memory else ''}"
    return f"{len(lines):,} {what} could not be read: {named}{more}"


def _contradictions(log: LexedLog) -> dict[str, list[int]]:
    """The lines whose figures do not add up, by memory."""
    views = log.tables.views()
    odd = np.abs(views[:, VIEW_TOTAL] - views[:, VIEW_ALLOCATED] - views[:, VIEW_FREE]) > _ADDS_UP_BYTES
    odd |= views[:, VIEW_LARGEST_FREE] > views[:, VIEW_FREE] + _ADDS_UP_BYTES
    if not odd.any():
        return {}
    kinds = np.array(log.tables.kind, np.int8)[log.token]
    payloads = np.array(log.tables.payload, np.int32)[log.token]
    found = {}
    for number, memory in enumerate(MEMORIES):
        at = np.flatnonzero(kinds == Kind.VIEW_DRAM + number)
        lines = log.line[at[odd[payloads[at]]]].tolist()
        if lines:
            found[memory] = lines
    return found


def _gaps(timelines: Iterable[Timeline], known: dict[str, list[int]]) -> dict[str, list[int]]:
    """The states that should hold a view of a memory and do not; the last one may be cut, but not empty."""
    found: dict[str, list[int]] = {}
    for timeline in timelines:
        has = timeline.state_view >= 0
        for number, memory in enumerate(MEMORIES):
            if memory in known or not has[:, number].any():
                continue
            without = np.flatnonzero(~has[:-1, number])
            spare = int(has.sum(axis=0).max()) - int(has[:, number].sum()) - int(not has[-1, number])
            if without.size and spare > 0:
                found.setdefault(memory, []).extend(timeline.state_line[without].tolist())
            elif not has[-1].any() and has[:-1, number].all():
                found.setdefault(memory, []).append(int(timeline.state_line[-1]))
    return found


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
    with _pause_garbage_collection():
        if parts:
            log = lex_in_parallel(Path(source), parts, options.progress)
        else:
            log, cut, left_out, unread_rest = _lex(source, options.progress)
    where = str(source)
    return build_profile(
        log, name=options.name, where=where, cut=cut, left_out=left_out, unread_rest=unread_rest, modules=modules
    )


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
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


def _collect_graph_arguments(log: LexedLog) -> Iterator[GraphArgument]:
    """The arguments of every graph; a dump may repeat lines of an earlier one, and every rank prints its own."""
    kinds = np.array(log.tables.kind, np.int8)[log.token]
    codes = log.token[kinds == Kind.MODULE]
    items = np.array(log.tables.payload, np.int32)[codes]
    ranks = np.array(log.tables.rank, np.int32)[codes]
    for rank in np.unique(ranks).tolist()[:RANKS]:
        yield from collect_arguments([log.tables.modules[item] for item in items[ranks == rank].tolist()])


def build_profile(
    log: LexedLog,
    *,
    name: str,
    where: str,
    cut: str = "",
    left_out: Sequence[str] = (),
    unread_rest: Sequence[str] = (),
    modules: Sequence[GraphArgument] = (),
    allow_empty: bool = False,
) -> Profile:
    """A lexed log as a Profile; raises when there is nothing about a device in it."""
    timelines, found = assemble(log)
    facts: dict[str, Any] = dict(found)
    arguments = (*_collect_graph_arguments(log), *modules)
    if not log.saw_marker and not any(log.tables.failures) and not allow_empty:
        raise _explain_empty(log, where=where, graphs=bool(arguments), cut=cut)
    damage = [f"the packed source is damaged: {cut}; what it held before is used"] if cut else []
    incomplete = [*damage, *left_out]
    ranks = facts.pop(RANKS_LEFT_OUT, "")
    of_ranks = [f"lines of {ranks} more ranks were left out: {RANKS} are kept apart"] if ranks else []
    unread = describe_unread_figures(log, timelines, where=where, left_out=[*damage, *unread_rest, *of_ranks])
    if unread and not log.tables.view_parts and not any(log.tables.failures) and not allow_empty:
        raise _explain_unread(unread, where=where)
    if unread:
        facts[UNREAD] = unread
    warnings = [*incomplete, *_warn_of_missing(log, timelines), *describe_contradictions(log)]
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


def _explain_unread(unread: Mapping[str, Mapping[str, Any]], *, where: str) -> BadInputError:
    return BadInputError(
        "; ".join(str(entry["text"]) for entry in unread.values()),
        where=where,
        hint="no memory figure is left: the lines were cut, or their numbers were rewritten; record the log again into "
        "a file, without a terminal or filter in between",
    )


def _explain_empty(log: LexedLog, *, where: str, graphs: bool, cut: str) -> BadInputError:
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


def _warn_of_missing(log: LexedLog, timelines: Sequence[Timeline]) -> list[str]:
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


_POLL_SECONDS = 0.25
_UPDATE_SECONDS = 1.0
_REST = 4
"""Pause after an update, in multiples of its duration: each update looks at the whole log again."""
_TAIL_BYTES = 256


def follow(
    path: str | Path,
    *,
    name: str,
    on_update: Callable[[Profile], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    idle_seconds: float | None = None,
) -> Profile:
    """Return the profile of a growing log, once ``stop`` is true, nothing came for ``idle_seconds``, or on Ctrl-C.

    ``on_update`` gets the current profile, at most once a second, and seldom enough that a log of any length costs
    little more than reading it once. A file that shrinks or is replaced (rotation, a new
    run of the same script) is read from its beginning.
    """
    log = _GrowingLog(Path(path))
    last_growth = time.monotonic()
    next_update = last_growth + _UPDATE_SECONDS
    fresh = False
    try:
        while True:
            if log.catch_up():
                last_growth = time.monotonic()
                fresh = True
            now = time.monotonic()
            if on_update and fresh and now >= next_update:
                on_update(build_profile(log.lexer.snapshot(), name=name, where=str(path), allow_empty=True))
                done = time.monotonic()
                next_update, fresh = max(now + _UPDATE_SECONDS, done + _REST * (done - now)), False
            if stop() or (idle_seconds is not None and now - last_growth >= idle_seconds):
                break
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        pass  # the ordinary way to end following: the answer comes now
    return build_profile(log.lexer.finish(), name=name, where=str(path))


class _GrowingLog:
    """A file, how far it has been read, and what was understood of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start_over()

    def _start_over(self) -> None:
        self.lexer = Lexer()
        self._offset = 0
        self._unwrapper: Unwrapper | None = None
        self._tail = b""
        """The last bytes that were read: a file that was emptied and filled again has others there, even when it
        is already longer and, as file systems reuse them, has the same number."""
        self._state: tuple[int, ...] = ()

    def catch_up(self) -> bool:
        """Read what is new; whether there was anything."""
        try:
            status = self.path.stat()
            state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if state == self._state:
                return False
            with self.path.open("rb") as file:
                if not self._is_the_same(file, state):
                    self._start_over()
                before = self._offset
                self._read(file)
        except FileNotFoundError:
            return False  # between the rename and the new file, or not yet written
        except OSError as error:
            raise BadInputError(f"cannot be read: {error.strerror or error}", where=str(self.path)) from error
        self._state = state
        return self._offset > before

    def _is_the_same(self, file: BinaryIO, state: tuple[int, ...]) -> bool:
        if self._state and (self._state[:2] != state[:2] or state[2] < self._offset):
            return False
        file.seek(self._offset - len(self._tail))
        return file.read(len(self._tail)) == self._tail

    def _read(self, file: BinaryIO) -> None:
        file.seek(self._offset)
        for chunk in chunks(file, str(self.path)):
            if not self._offset and chunk.startswith(PACKED_MAGIC):
                raise BadInputError(
                    "a packed file cannot be followed", where=str(self.path), hint="follow the plain log"
                )
            if not self._offset:
                if b"\n" not in chunk and len(chunk) < SNIFFED_BYTES:
                    return  # how it is wrapped shows in its first line, which is not whole yet
                self._unwrapper = find_unwrapper(chunk)
            self._offset += len(chunk)
            self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
            self.lexer.take(self._unwrapper.take(chunk) if self._unwrapper else chunk)
