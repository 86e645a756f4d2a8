# SPDX-License-Identifier: Apache-2.0
"""``ttmem sweep run``: Run cases on the twin, a mock board or a card, and keep a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands import options
from ttmem.commands.output import emit, json_text, note
from ttmem.commands.command_line import verb

if TYPE_CHECKING:
    from ttmem.operators.sweeps.run import Progress


@verb("""
ttmem sweep run cases.jsonl -o results
ttmem sweep run cases.jsonl --engine mock --board n150,p150 --memory DRAM,L1 --workers 2 -o results
ttmem sweep run cases.jsonl --engine mock --scheduler tcp://10.0.0.1:8786 -o results
ttmem sweep run cases.jsonl -o results --expect expected.jsonl
""")
@click.argument("cases", metavar="CASES", type=click.Path(path_type=Path))
@options.engine_option
@options.places_options
@options.count_option("--workers", help="Processes with the real library (default: one per processor).")
@click.option("--scheduler", metavar="ADDRESS", help="Hand the cases to this Dask cluster: tcp://HOST:PORT.")
@options.seconds_option("--timeout", 0.1, 60.0, "Longest a single call may take.")
@options.case_options
@options.ttnn_option
@options.folder_option("Journal and results; a second call resumes.")
@click.option(
    "--strict",
    is_flag=True,
    help="Exit 1 when a case does not pass (or, with --expect, is not listed and does not pass).",
)
@options.path_option("--expect", help="What is known to fail: exit 1 when a status differs.")
@click.option(
    "--save-expectations",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write today's failures as such a file.",
)
@options.json_option
@options.quiet_option
def command(
    cases: Path, folder: Path, save_expectations: Path | None, as_json: bool, quiet: bool, **settings: Any
) -> int:
    """Run CASES (of 'ttmem ops extract') and write FOLDER/journal.sqlite and FOLDER/results.jsonl.

    Small cases come first, so that limits appear early. A run that was interrupted or killed goes on where it was. Each
    case runs alone on an empty device ("isolated": true on each result).
    """
    import ttmem
    from ttmem.operators.sweeps import expectations
    from ttmem.reports.sweep.terminal import render

    remarks: list[str] = []
    with live_table(quiet=quiet) as watch:
        found = ttmem.sweep(cases, folder, watch=watch, remark=remarks.append, **settings)
    for text in remarks:
        note(text, quiet=quiet)
    if save_expectations:
        expectations.write(save_expectations, found.results)
        note(f"wrote {save_expectations}", quiet=quiet)
    emit(json_text(found.document) if as_json else render(found.results, found.finished, found.unexpected), None)
    return 1 if found.unexpected else 0


@contextmanager
def live_table(*, quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """A table of statuses with rate and time left on a terminal's stderr; nothing elsewhere."""
    import sys

    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    from ttmem.reports.kit.console import gated
    from ttmem.reports.sweep.terminal import live

    with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as screen:
        yield lambda progress: screen.update(gated(live(progress)))
