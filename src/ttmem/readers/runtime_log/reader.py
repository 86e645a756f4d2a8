# SPDX-License-Identifier: Apache-2.0
"""tt-mlir / TT-XLA runtime logs: the operations that ran and the memory states printed before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ttmem.profile import Argument, Profile, Source
from ttmem.readers.byte_source import OpenedSource, Progress, TruncatedSourceError
from ttmem.readers.mlir._module import registry
from ttmem.readers.mlir.file import read_arguments
from ttmem.readers.registry import ReadOptions
from ttmem.readers.runtime_log import KIND
from ttmem.readers.runtime_log._assembly import assemble
from ttmem.readers.runtime_log._diagnosis import nothing_to_profile, what_is_missing
from ttmem.readers.runtime_log._lexer import Lexer, without_garbage_collection
from ttmem.readers.runtime_log._lines import LineSplitter
from ttmem.readers.runtime_log._parallel import lex_in_parallel, worth_splitting
from ttmem.readers.runtime_log._tokens import Kind, LexedLog

PRINTED_ERROR_BYTES = 525
"""Views print MiB with three decimals: half of 0.001 MiB, rounded up."""


def read(source: str | Path, options: ReadOptions) -> Profile:
    """The memory history in a log; a damaged or cut log gives what it holds, with warnings."""
    modules = [argument for path in options.mlir for argument in read_arguments(path)[0]]
    parts = worth_splitting(source, options.jobs)
    with without_garbage_collection():
        if parts:
            log, cut = lex_in_parallel(Path(source), parts, options.progress), ""
        else:
            log, cut = _lex(source, options.progress)
    return profile_of(log, name=options.name, where=str(source), cut=cut, modules=modules)


def _lex(source: str | Path, progress: Progress | None) -> tuple[LexedLog, str]:
    lexer, splitter = Lexer(), LineSplitter()
    cut = ""
    with OpenedSource(source) as opened:
        try:
            for chunk in opened.chunks(progress):
                lexer.byte_count += len(chunk)
                lexer.feed(splitter.split(chunk))
        except TruncatedSourceError as error:
            cut = error.reason
    lexer.feed(splitter.rest())
    return lexer.snapshot(), cut


def _registered(log: LexedLog) -> Iterator[Argument]:
    """The arguments of every graph; a dump may repeat lines of an earlier one, and every rank prints its own."""
    kinds = np.array(log.tables.kind, np.int8)[log.token]
    codes = log.token[kinds == Kind.MODULE]
    items = np.array(log.tables.payload, np.int32)[codes]
    ranks = np.array(log.tables.rank, np.int32)[codes]
    for rank in np.unique(ranks).tolist():
        yield from registry([log.tables.modules[item] for item in items[ranks == rank].tolist()])


def profile_of(
    log: LexedLog, *, name: str, where: str, cut: str = "", modules: Sequence[Argument] = (), allow_empty: bool = False
) -> Profile:
    """A lexed log as a Profile; raises when there is nothing about a device in it."""
    timelines, facts = assemble(log)
    arguments = (*_registered(log), *modules)
    if not log.saw_marker and not any(log.tables.failures) and not allow_empty:
        raise nothing_to_profile(log, where=where, graphs=bool(arguments), cut=cut)
    warnings = [f"the packed source is damaged: {cut}; what it held before is used"] if cut else []
    warnings += what_is_missing(log, timelines)
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
        facts=dict(facts),
    )
