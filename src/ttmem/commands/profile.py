# SPDX-License-Identifier: Apache-2.0
"""``ttmem profile``: Report what filled the memory: peaks, consumers, padding, weights, failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ttmem.commands import options
from ttmem.commands.command_line import verb
from ttmem.commands.profile_answer import (
    follow_log,
    print_answer,
    print_next_command,
    protect_sources,
    read_with_progress,
    store_profile,
    try_store,
)


@verb("""
ttmem profile run.log
ttmem profile run.log.zst --llm -o report.md
ttmem profile run.log --json --run last
ttmem profile run.log --html report.html --no-store
some-command 2>&1 | ttmem profile - --name nightly
""")
@options.source_argument("source")
@options.profile_form_options
@options.output_option
@click.option("--name", metavar="NAME", help="Call the report NAME and store it so, replacing an earlier one.")
@options.no_store_option
@options.selection_options
@click.option("--follow", is_flag=True, help="Keep reading a growing log; Ctrl-C ends it with the answer.")
@click.option("--idle", type=float, metavar="SECONDS", help="With --follow: end after SECONDS without a new line.")
@options.jobs_option
@click.option("--mlir", multiple=True, metavar="FILE", help="A module dump that belongs to the log; may be repeated.")
@options.quiet_option
def command(
    source: str,
    as_json: bool,
    as_llm: bool,
    as_csv: bool,
    html_path: Path | None,
    output: Path | None,
    name: str | None,
    no_store: bool,
    which_run: str,
    rank: int | None,
    follow: bool,
    idle: float | None,
    quiet: bool,
    **reading: Any,
) -> None:
    """Report what filled the memory in SOURCE: which operations and tensors, and how much of it is padding.

    SOURCE is a tt-mlir or TT-XLA runtime log (plain, .gz, .zst, .bz2, .xz, - for stdin), a ttnn graph capture, a
    ttnn-visualizer report (folder or db.sqlite), a folder of tt-metal memory-report CSVs, ttrt memory results, a module
    dump (.mlir), a saved profile, or the name of a stored report. Figures are per bank unless they say otherwise.
    """
    from ttmem.profile import store
    from ttmem.profile.runs import select
    from ttmem.readers.sources import locate

    form = options.choose_one(json=as_json, llm=as_llm, csv=as_csv)
    if idle is not None and not follow:
        raise click.UsageError("--idle goes with --follow")
    if name is not None:
        name = store.check_name(name)
    protect_sources(source, outputs=(output, html_path))
    located = locate(source)
    if follow:
        profile = follow_log(located, name=name, idle_seconds=idle, quiet=quiet)
    else:
        profile = read_with_progress(source, name=name, quiet=quiet, **reading)
    known = located.stored if not name else None

    def keep() -> store.StoredReport | None:
        if known or no_store:
            return known
        return try_store(lambda: store_profile(profile, origin=located.origin, name=name))

    kept = print_answer(
        select(profile, run=which_run, rank=rank),
        form,
        html_path=html_path,
        output=output,
        quiet=quiet,
        store=keep,
    )
    print_next_command(profile, kept, quiet=quiet, stored_now=known is None, check=form is not None)
