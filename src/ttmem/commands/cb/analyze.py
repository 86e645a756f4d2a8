# SPDX-License-Identifier: Apache-2.0
"""``ttmem cb analyze``: Write all circular-buffer analyses into one report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.base.errors import BadInputError
from ttmem.commands.options import json_option, output_option, quiet_option, refuse_overwriting, writable_place
from ttmem.commands._progress import progress_bar
from ttmem.commands.cb._options import assumption_options, collect, predicted, workload_of
from ttmem.commands.output import emit, json_text
from ttmem.commands.command_line import verb

if TYPE_CHECKING:
    from ttmem.circular_buffers.scan import Scan
    from ttmem.circular_buffers.workload import Workload

_EXAMPLES = """
ttmem cb analyze 16 16
ttmem cb analyze --multi customer/ fixed/ run.log
ttmem cb analyze 16 16 add_customer.cpp add_fixed.cpp --html report.html
ttmem cb analyze ops_perf_results.csv watcher.log --json
"""


@verb(_EXAMPLES)
@click.argument("words", nargs=-1, metavar="[T R] [PATH]... [LOG]...")
@click.option("--multi", is_flag=True, help="The workloads 1, 2, 4, 8, 16, 17, 32 instead of T and R.")
@assumption_options
@click.option(
    "--bind", "bindings", multiple=True, metavar="NAME=VALUE", help="For the scan: what a name in the code is."
)
@json_option
@click.option("--html", callback=writable_place, metavar="FILE", help="Also write the report as one offline page.")
@output_option
@quiet_option
def command(
    words: tuple[str, ...],
    multi: bool,
    bindings: tuple[str, ...],
    as_json: bool,
    html: Path | None,
    output: Path | None,
    quiet: bool,
    **assumed: Any,
) -> None:
    """Simulate T and R, scan code, and read logs and captures, in one Markdown report about circular buffers.

    Folders and C++ files are scanned as by 'ttmem cb scan', with tiles_per_shard and r_tiles bound to T and R; two or
    more are compared side by side. Any other file or stored report is read as by 'ttmem cb profile'. Where the parts
    speak of the same thing, the report says whether they agree.
    """
    from ttmem.circular_buffers.analyze import Analysis
    from ttmem.circular_buffers.buffer_depths import throughput_over_depth
    from ttmem.circular_buffers.workload import multi as multi_workloads
    from ttmem.readers import sources as _sources
    from ttmem.reports.cb_analyze import document as cb_analysis_document
    from ttmem.reports.cb_analyze import html as cb_html
    from ttmem.reports.cb_analyze import markdown as cb_markdown

    single, paths = _split(words)
    if multi and single:
        raise click.UsageError("give T and R, or --multi, not both")
    workloads = multi_workloads() if multi else (single,) if single else ()
    if not workloads and not paths:
        raise click.UsageError("nothing to analyze: give T and R, --multi, code or logs")
    code = [path for path in paths if _is_code(path)]
    logs = [path for path in paths if not _is_code(path)]
    for path in (*code, *(str(_sources.locate(log).path) for log in logs)):
        refuse_overwriting(path, output, html)
    assumptions, simulations = predicted(workloads, **assumed)
    analysis = Analysis(
        simulations,
        curves=throughput_over_depth(assumptions) if workloads else (),
        sources=tuple(_scan(path, (*_bindings(single), *bindings), assumed["board"], quiet) for path in code),
        evidence=tuple(collect(log, quiet=quiet) for log in logs),
    )
    if html:
        emit(cb_html.render(analysis), html)
    if as_json:
        emit(json_text(cb_analysis_document.document(analysis, multi=multi)), output)
    else:
        emit(cb_markdown.render(analysis), output)


def _split(words: tuple[str, ...]) -> tuple[Workload | None, tuple[str, ...]]:
    """T and R stand first; one number alone is a mistake, not a path, unless such a file exists."""
    numbers = [word for word in words[:2] if word.lstrip("+-").isdigit() and not Path(word).exists()]
    if len(numbers) == 2:
        return workload_of(*numbers), words[2:]
    if numbers:
        raise BadInputError(
            f"'{numbers[0]}' alone is no workload", hint="give two numbers: tiles per shard and R tiles"
        )
    return None, words


def _bindings(workload: Workload | None) -> tuple[str, ...]:
    """The workload's counts under the published program's own names; what the user binds comes later and wins."""
    return tuple(f"{name}={count}" for name, count in asdict(workload).items()) if workload else ()


def _is_code(path: str) -> bool:
    from ttmem.circular_buffers.scan.files import SUFFIXES

    folder = Path(path)
    is_report = any(folder.glob("*.sqlite")) or any(folder.glob("*memory_usage*.csv"))
    return folder.suffix.lower() in SUFFIXES or (folder.is_dir() and not is_report)


def _scan(path: str, bindings: tuple[str, ...], board: str, quiet: bool) -> Scan:
    from ttmem.circular_buffers.scan import parse_bindings, scan
    from ttmem.hardware import open_board

    if not Path(path).exists():
        raise BadInputError("no such file or folder", where=path)
    with progress_bar(f"scanning {path}", quiet=quiet) as progress:
        return scan(path, bindings=parse_bindings(bindings), memory_map=open_board(board), progress=progress)
