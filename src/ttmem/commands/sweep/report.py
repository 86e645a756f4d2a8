# SPDX-License-Identifier: Apache-2.0
"""``ttmem sweep report``: The reports of a sweep, or of a folder of other tools' test logs."""

from __future__ import annotations

from pathlib import Path

import click

from ttmem.commands._options import quiet_option
from ttmem.commands._output import emit, json_text, note
from ttmem.commands._progress import progress_bar
from ttmem.commands._runner import verb

_EXAMPLES = """
ttmem sweep report results -o reports
ttmem sweep report test_results/ -o reports --board n150
ttmem sweep report results -o reports --advice mock
"""


@verb("report", examples=_EXAMPLES)
@click.argument("source", metavar="SOURCE", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where the files go.",
)
@click.option(
    "--advice",
    type=click.Choice(["twin", "mock", "none"]),
    default="twin",
    show_default=True,
    help="Which engine is asked what passes instead.",
)
@click.option(
    "--board", default="n150", show_default=True, metavar="BOARD", help="For advice where a log names no board."
)
@click.option("--python", metavar="PATH", help="An interpreter that has ttnn (also: TTMEM_TTNN_PYTHON).")
@click.option("--json", "as_json", is_flag=True, help="The metrics as one JSON document.")
@quiet_option
def command(
    source: Path, folder: Path, advice: str, board: str, python: str | None, as_json: bool, quiet: bool
) -> None:
    """Write the operator analysis, the memory failures and the final report of SOURCE, and one HTML page.

    SOURCE is a folder of 'ttmem sweep run', its results.jsonl, or other tools' results: test_*_results.txt of pytest,
    JUnit XML, JSON or CSV of tt-metal's sweep framework, or a folder of these. Each failure counts once; a test skipped
    for want of memory is an OOM; an operator without a test has not passed.
    """
    import datetime
    from dataclasses import replace

    from ttmem.reports.sweep import files as sweep_files
    from ttmem.reports.sweep import final_report as sweep_final_report
    from ttmem.reports.sweep.words import headline
    from ttmem.sweep.gather import MOST_ADVISED, gather
    from ttmem.sweep.journal import is_results, read_results
    from ttmem.sweep.plan import Settings

    settings = None
    if advice == "mock":
        told = read_results(source)[2].get("settings", {}) if source.exists() and is_results(source) else {}
        known = {name: told[name] for name in ("l1_small_bytes", "trace_region_bytes", "float_dtype") if name in told}
        settings = replace(Settings(engine="mock", python=python), **known)
    with progress_bar("asking what passes", quiet=quiet) as progress:
        findings = gather(
            source,
            generated=datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
            settings=settings,
            board=board,
            most_advised=0 if advice == "none" else MOST_ADVISED,
            watch=progress,
        )
    written = sweep_files.write_all(findings, folder)
    for text in findings.summary.notes:
        note(f"note: {text}", quiet=quiet)
    if as_json:
        emit(json_text(sweep_final_report.metrics(findings)), None)
        return
    lines = [f"{name}: {count}{f' ({part})' if part else ''}" for name, count, part in headline(findings.summary)]
    emit("\n".join([*lines, "", *(str(path) for path in written)]), None)
