# SPDX-License-Identifier: Apache-2.0
"""Stand-alone .mlir files (tt-xla's ``export_path`` writes them): the arguments of a graph, no run."""

from __future__ import annotations

from pathlib import Path

from ttmem._errors import BadInputError
from ttmem.profile import Argument, Profile, Source
from ttmem.profile.tables import ProfileTables
from ttmem.readers.byte_source import OpenedSource, TruncatedSourceError
from ttmem.readers.mlir import KIND
from ttmem.readers.mlir._module import ModuleItem, parse_module_line, registry
from ttmem.readers.registry import ReadOptions
from ttmem.readers.runtime_log._lines import LineSplitter


def read_arguments(path: str | Path) -> tuple[list[Argument], int, int]:
    """The annotated arguments in the file, its bytes and its lines."""
    splitter = LineSplitter()
    items: list[ModuleItem] = []
    byte_count = line_count = 0
    with OpenedSource(path) as opened:
        try:
            for chunk in opened.chunks():
                byte_count += len(chunk)
                lines = splitter.split(chunk)
                line_count += len(lines)
                items += [item for line in lines if (item := parse_module_line(line))]
        except TruncatedSourceError as error:
            raise BadInputError(f"cannot be unpacked: {error.reason}", where=opened.name) from error
    rest = splitter.rest()
    items += [item for line in rest if (item := parse_module_line(line))]
    return registry(items), byte_count, line_count + len(rest)


def read(path: str | Path, options: ReadOptions) -> Profile:
    """A profile that knows the graph's weights and nothing of a run."""
    arguments, byte_count, line_count = read_arguments(path)
    if not arguments:
        raise BadInputError(
            "no function with annotated arguments in this module",
            where=str(path),
            hint="dump the ttir or ttnn stage: earlier stages do not say which arguments are weights",
        )
    return ProfileTables().profile(
        (),
        name=options.name,
        source=Source(
            kind=KIND,
            name=str(path),
            bytes=byte_count,
            lines=line_count,
            warnings=("a module dump tells the weights of a graph; it does not tell what a run needed",),
        ),
        arguments=arguments,
    )
