# SPDX-License-Identifier: Apache-2.0
"""``ttmem export``: Write a profile for ttnn-visualizer, Perfetto, or as Parquet or CSV tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ttmem.commands.command_line import verb
from ttmem.commands.options import jobs_option, quiet_option, selection_options, source_argument
from ttmem.commands.output import emit, note, progress_bar
from ttmem.commands.profile_answer import protect_sources
from ttmem.commands.read import Progress, Source, read

_NEXT = {
    "visualizer": "ttnn-visualizer --profiler-path '{out}'",
    "perfetto": "open https://ui.perfetto.dev and drop '{out}' on it (it stays on your machine)",
}


def export(
    source: Source,
    to: str,
    out: str | Path,
    *,
    run: int | str | None = None,
    rank: int | None = None,
    with_source: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write a source for ``visualizer``, ``perfetto``, ``parquet`` or ``csv`` and return where it went.

    ``perfetto`` writes a file, the others a folder: one of an earlier export is replaced, any other one that is not
    empty is refused. ``with_source`` embeds the user's source files where the format has a place for them.
    """
    from ttmem.reports import exports

    exports.check_place(to, Path(out))
    profile = read(source, run=run, rank=rank, jobs=jobs, progress=progress)
    return exports.export(profile, to, out, with_source=with_source)


@verb("""
ttmem export run.log --to perfetto -o trace.json
ttmem export bert --to visualizer -o bert-report --run last
ttmem export report/db.sqlite --to csv -o tables
ttmem export run.log --to parquet -o tables
""")
@source_argument("source")
@click.option(
    "--to",
    "target",
    type=click.Choice(["visualizer", "perfetto", "parquet", "csv"]),
    required=True,
    help="A ttnn-visualizer report folder, a Perfetto trace, or a folder of Parquet or CSV tables.",
)
@click.option("-o", "--output", "out", type=click.Path(path_type=Path), required=True, metavar="OUT", help="Where to.")
@selection_options
@click.option("--with-source", is_flag=True, help="Embed your source files where the format has a place for them.")
@jobs_option
@quiet_option
def command(source: str, target: str, out: Path, which_run: str, quiet: bool, **part: Any) -> None:
    """Write SOURCE in the format of another tool and print the path.

    A folder of an earlier export is replaced; any other folder that is not empty is refused. Warnings of the source
    are exported too. Addresses of tensors that a log names are simulated, and the export says so.
    """
    protect_sources(source, outputs=(out,))
    with progress_bar(f"reading {source}", quiet=quiet) as progress:
        written = export(source, target, out, run=which_run, progress=progress, **part)
    emit(str(written), None)
    if following := _NEXT.get(target):
        note(f"next: {following.format(out=written)}", quiet=quiet)
