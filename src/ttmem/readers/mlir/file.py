# SPDX-License-Identifier: Apache-2.0
"""Stand-alone .mlir files (tt-xla's ``export_path`` writes them): the arguments of a graph, no run."""

from __future__ import annotations

from pathlib import Path

from ttmem._errors import BadInputError
from ttmem.profile import Argument, Profile, Source
from ttmem.profile.tables import ProfileTables
from ttmem.readers.byte_source import OpenedSource
from ttmem.readers.mlir import KIND
from ttmem.readers.mlir._module import parse_module_line, registry
from ttmem.readers.registry import ReadOptions
from ttmem.readers.runtime_log._lines import LineSplitter


def read_arguments(path: str | Path) -> tuple[list[Argument], int, int]:
    """The annotated arguments in the file, its bytes and its lines."""
    with OpenedSource(path) as opened:
        content = opened.content()
    splitter = LineSplitter()
    lines = [*splitter.split(content), *splitter.rest()]
    return registry(item for line in lines if (item := parse_module_line(line))), len(content), len(lines)


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
