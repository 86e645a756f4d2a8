# SPDX-License-Identifier: Apache-2.0
"""``ttmem export``: Write a profile for ttnn-visualizer, Perfetto, or as Parquet or CSV tables."""

from pathlib import Path
from typing import Any

import click

from ttmem.commands.options import jobs_option, quiet_option, selection_options, source_argument
from ttmem.commands.output import emit, note
from ttmem.commands.command_line import verb

_NEXT = {
    "visualizer": "ttnn-visualizer --profiler-path '{out}'",
    "perfetto": "open https://ui.perfetto.dev and drop '{out}' on it (it stays on your machine)",
}


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
    travel along. Addresses of tensors that a log names are simulated, and the export says so.
    """
    import ttmem
    from ttmem.commands import profile_answer
    from ttmem.commands._progress import progress_bar

    profile_answer.protect(source, outputs=(out,))
    with progress_bar(f"reading {source}", quiet=quiet) as progress:
        written = ttmem.export(source, target, out, run=which_run, progress=progress, **part)
    emit(str(written), None)
    if following := _NEXT.get(target):
        note(f"next: {following.format(out=written)}", quiet=quiet)
