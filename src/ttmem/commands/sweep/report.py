# SPDX-License-Identifier: Apache-2.0
"""``ttmem sweep report``: Write the reports of a sweep, or of a folder of other tools' test logs."""

import time
from pathlib import Path
from typing import Any

import click

from ttmem.commands.options import board_option, choice_option, folder_option, python_option, quiet_option
from ttmem.commands._progress import progress_bar
from ttmem.commands.output import emit, json_text, note
from ttmem.commands.command_line import verb


@verb("""
ttmem sweep report results -o reports
ttmem sweep report test_results/ -o reports --board n150
ttmem sweep report results -o reports --advice mock
""")
@click.argument("source", metavar="SOURCE", type=click.Path(path_type=Path))
@folder_option("Where the files go.")
@choice_option("--advice", "twin", "mock", "none", help="Which engine is asked what passes instead.")
@board_option("For advice where a log names no board.")
@python_option()
@click.option("--json", "as_json", is_flag=True, help="The metrics as one JSON document.")
@quiet_option
def command(source: Path, folder: Path, as_json: bool, quiet: bool, **asked: Any) -> None:
    """Write the operator analysis, the memory failures and the final report of SOURCE, and one HTML page.

    SOURCE is a folder of 'ttmem sweep run', its results.jsonl, or other tools' results: test_*_results.txt of pytest,
    JUnit XML, JSON or CSV of tt-metal's sweep framework, or a folder of these. Each failure counts once; a test skipped
    for want of memory is an OOM; an operator without a test has not passed.
    """
    from ttmem.operators.sweeps.findings import find_in
    from ttmem.reports.sweep.document import report_document
    from ttmem.reports.sweep.files import listing, write_all
    from ttmem.reports.sweep.tables import headline_text

    with progress_bar("asking what passes", quiet=quiet, of_bytes=False) as progress:
        findings = find_in(source, generated=time.strftime("%Y-%m-%d %H:%M:%S"), watch=progress, **asked)
    written = write_all(findings, folder)
    for text in findings.summary.notes:
        note(f"note: {text}", quiet=quiet)
    if as_json:
        emit(json_text(report_document(findings)), None)
        return
    emit("\n".join([headline_text(findings.summary), "", listing(written), "", f"next: open {written[0]}"]), None)
