# SPDX-License-Identifier: Apache-2.0
"""``ttmem sweep``: Find which operators and shapes fail on which board and memory, and their limits."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands import options
from ttmem.commands.command_line import GroupWithExamples, debug_option, verb
from ttmem.commands.output import emit, json_text, looks, note, progress_bar

if TYPE_CHECKING:
    from ttmem.operators.case import Case
    from ttmem.operators.sweeps.comparison import Deviation
    from ttmem.operators.sweeps.distribute import Remark
    from ttmem.operators.sweeps.result import Result
    from ttmem.operators.sweeps.run import Finished, Progress, Watch
    from ttmem.reports.sweep import SweepRunDocument
    from ttmem.reports.sweep_diff import SweepDiff


@dataclass(frozen=True, slots=True)
class SweepRun:
    """The results of the requested cases, whether this call or an earlier one ran them."""

    finished: Finished
    results: tuple[Result, ...]
    unexpected: tuple[Deviation, ...]
    """Differences from the expectations, or cases that did not pass when the call was strict."""

    @property
    def document(self) -> SweepRunDocument:
        """The document of ``ttmem sweep run --json``."""
        from ttmem.reports.sweep import build_run

        return build_run(self.finished, self.results, self.unexpected)

    @property
    def statuses(self) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
        """Board -> memory -> status -> count."""
        return self.document.statuses

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``ttmem sweep run --json``."""
        return self.document.to_json()


def sweep(
    cases: str | Path | Sequence[Case],
    out: str | Path,
    *,
    engine: str = "twin",
    boards: Sequence[str] = (),
    memories: Sequence[str] = (),
    layouts: Sequence[str] = (),
    dtype: str = "bfloat16",
    l1_small: int = 32768,
    trace_region: int = 0,
    timeout: float = 60.0,
    python: str | None = None,
    ttnn: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    expect: str | Path | None = None,
    strict: bool = False,
    watch: Watch | None = None,
    remark: Remark | None = None,
) -> SweepRun:
    """Run every case on an engine (``twin``, ``mock``, ``card``), each alone on an empty device.

    ``cases`` is a file of ``ttmem ops extract`` or the cases themselves. ``out`` is a folder: its journal is the truth,
    so a second call resumes. Unless others are named, the board is n150, the memories are DRAM and L1, the layout is
    tile. ``dtype`` is the type of the models' floats on the device (``"model"``: as recorded),
    ``timeout`` seconds per call, ``ttnn`` a release that ``ttmem device install`` made, ``scheduler`` a Dask cluster
    (``tcp://host:port``). ``expect`` is a file of known failures; ``strict`` finds every other case that does not pass.
    ``watch`` is called with the progress, ``remark`` with a text when a worker of the cluster was lost.
    """
    from ttmem.engines.interpreters import choose_python
    from ttmem.operators.case import read_cases
    from ttmem.operators.sweeps import comparison
    from ttmem.operators.sweeps.journal import read_results
    from ttmem.operators.sweeps.plan import SWEPT_MEMORIES, SweepSettings, make_plan
    from ttmem.operators.sweeps.run import run_sweep

    python = choose_python(python, ttnn)
    settings = SweepSettings(engine, l1_small, trace_region, None if dtype == "model" else dtype, timeout, python)
    expected = comparison.read(Path(expect)) if expect is not None else None
    named, known = (Path(cases), read_cases(cases)) if isinstance(cases, (str, Path)) else (None, cases)
    plan = make_plan(
        known,
        settings=settings,
        boards=boards or ("n150",),
        memories=memories or SWEPT_MEMORIES,
        layouts=layouts or ("tile",),
    )
    facts = {"cases_file": named.name} if named is not None else {}
    finished = run_sweep(plan, Path(out), workers=workers, scheduler=scheduler, watch=watch, remark=remark, **facts)
    places = {point.place for point in plan.points}
    results = [result for result in read_results(Path(out))[0] if result.place in places]
    return SweepRun(finished, tuple(results), tuple(comparison.check_expectations(results, expected, strict=strict)))


command = GroupWithExamples(
    "sweep",
    help="""Find which operators and shapes fail on which board and memory, the largest that pass, and what to change.

Every case runs alone on an empty device: the residents of a whole model leave less room.
""",
    epilog="""
ttmem sweep run cases.jsonl --board n150 --memory DRAM,L1 -o results
ttmem sweep report results -o reports
ttmem sweep limits --op silu --board n150
""",
    params=[debug_option()],
)


@verb(
    """
ttmem sweep run cases.jsonl -o results
ttmem sweep run cases.jsonl --engine mock --board n150,p150 --memory DRAM,L1 --workers 2 -o results
ttmem sweep run cases.jsonl --engine mock --scheduler tcp://10.0.0.1:8786 -o results
ttmem sweep run cases.jsonl -o results --expect expected.jsonl
""",
    group=command,
    line="Run cases on the twin, a mock board or a card, and keep a journal.",
)
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
def run(cases: Path, folder: Path, save_expectations: Path | None, as_json: bool, quiet: bool, **settings: Any) -> int:
    """Run CASES (of 'ttmem ops extract') and write FOLDER/journal.sqlite and FOLDER/results.jsonl.

    Small cases come first, so that limits appear early. A run that was interrupted or killed resumes where it stopped.
    Each case runs alone on an empty device ("isolated": true on each result).
    """
    from ttmem.operators.sweeps import comparison
    from ttmem.reports.sweep import render_run

    remarks: list[str] = []
    with _open_live_table(quiet=quiet) as watch:
        found = sweep(cases, folder, watch=watch, remark=remarks.append, **settings)
    for text in remarks:
        note(text, quiet=quiet)
    if save_expectations:
        comparison.write(save_expectations, found.results)
        note(f"wrote {save_expectations}", quiet=quiet)
    emit(json_text(found.document) if as_json else render_run(found.results, found.finished, found.unexpected), None)
    return 1 if found.unexpected else 0


@contextmanager
def _open_live_table(*, quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show a table of statuses with rate and time left on a terminal's stderr; nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    from ttmem.reports.kit.console import escape_renderable
    from ttmem.reports.sweep import build_progress

    with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as screen:
        yield lambda progress: screen.update(escape_renderable(build_progress(progress)))


@verb(
    """
ttmem sweep report results -o reports
ttmem sweep report test_results/ -o reports --board n150
ttmem sweep report results -o reports --advice mock
""",
    group=command,
    line="Write the reports of a sweep, or of a folder of other tools' test logs.",
)
@click.argument("source", metavar="SOURCE", type=click.Path(path_type=Path))
@options.folder_option("Where the files go.")
@options.choice_option("--advice", "twin", "mock", "none", help="Which engine is asked what passes instead.")
@options.board_option("For advice where a log names no board.")
@options.python_option()
@click.option("--json", "as_json", is_flag=True, help="The metrics as one JSON document.")
@options.quiet_option
def report(source: Path, folder: Path, as_json: bool, quiet: bool, **settings: Any) -> None:
    """Write the operator analysis, the memory failures and the final report of SOURCE, and one HTML page.

    SOURCE is a folder of 'ttmem sweep run', its results.jsonl, or other tools' results: test_*_results.txt of pytest,
    JUnit XML, JSON or CSV of tt-metal's sweep framework, or a folder of these. Each failure counts once; a test skipped
    for want of memory is an OOM; an operator without a test has not passed.
    """
    from ttmem.operators.sweeps.findings import summarize_results
    from ttmem.reports.sweep_report import build_report, list_files, write_files
    from ttmem.reports.sweep_tables import render_headline

    with progress_bar("asking what passes", quiet=quiet, of_bytes=False) as progress:
        findings = summarize_results(source, generated=time.strftime("%Y-%m-%d %H:%M:%S"), watch=progress, **settings)
    written = write_files(findings, folder)
    for text in findings.summary.notes:
        note(f"note: {text}", quiet=quiet)
    if as_json:
        emit(json_text(build_report(findings)), None)
        return
    emit("\n".join([render_headline(findings.summary), "", list_files(written), "", f"next: open {written[0]}"]), None)


@verb(
    """
ttmem sweep limits --op silu --board n150
ttmem sweep limits --op add,mul --memory L1 --engine mock --html limits.html
ttmem sweep limits --op matmul --shape 1x1x32x1024 --json
ttmem sweep limits --cases cases.jsonl --op convolution --dim 0
""",
    group=command,
    line="Find the largest shape per operator that passes, by progressive search.",
)
@options.words_option("--op", "ops", metavar="NAME,..", help="Operators, by aten name.")
@options.path_option(
    "--cases",
    metavar="CASES",
    help="Grow the smallest case of each operator in this file instead of the catalogue's example.",
)
@click.option("--shape", metavar="SHAPE", help="Grow this first tensor (1x96x32x32) at its own width.")
@click.option("--dim", type=int, metavar="N", help="The dimension that grows (default: the second-last).")
@click.option(
    "--widths", metavar="N,..", help="Widths of the frontier (default 32 to 16384 in powers of two; 'own': no others)."
)
@options.engine_option
@options.places_options
@options.case_options
@options.json_option
@click.option("--markdown", "as_markdown", is_flag=True, help="The table for documentation.")
@options.file_option("--html", help="Also write a page with the frontier plot.")
@options.file_option("--svg", help="Also write the frontier plot.")
@options.output_option
@options.quiet_option
def limits(
    ops: tuple[str, ...],
    cases: Path | None,
    shape: str | None,
    dim: int | None,
    widths: str | None,
    engine: str,
    boards: tuple[str, ...],
    memories: tuple[str, ...],
    layouts: tuple[str, ...],
    l1_small: int,
    trace_region: int,
    dtype: str,
    python: str | None,
    as_json: bool,
    as_markdown: bool,
    html: Path | None,
    svg: Path | None,
    output: Path | None,
    quiet: bool,
) -> None:
    """Find the largest shape that passes: sizes double until one fails, then the gap is halved.

    Where the operator allows it, this is done for several widths: the frontier between shapes that pass and shapes that
    do not.
    """
    from ttmem.hardware import BOARDS, MEMORIES
    from ttmem.operators.sweeps.limits import WIDTHS, find_limits
    from ttmem.operators.sweeps.plan import SweepSettings
    from ttmem.reports import sweep as reports
    from ttmem.twin.tensor_spec import LAYOUTS

    form = options.choose_one(json=as_json, markdown=as_markdown)
    frontiers = find_limits(
        _choose_cases(ops, cases, shape),
        settings=SweepSettings(engine, l1_small, trace_region, None if dtype == "model" else dtype, python=python),
        boards=[BOARDS.find(board).name for board in boards or ("n150",)],
        memories=[MEMORIES.find(memory).name for memory in memories or ("DRAM", "L1")],
        layouts=[LAYOUTS.find(layout).name for layout in layouts or ("tile",)],
        dim=dim,
        widths=WIDTHS if widths is None and shape is None else _parse_widths(widths or "own"),
        watch=None if quiet else lambda limit: note(f"{limit.op} {limit.board} {limit.memory}: {limit.shape} passes"),
    )
    for path, render in ((html, reports.render_limits_html), (svg, reports.render_limits_svg)):
        if path:
            emit(render(frontiers), path)
            note(f"wrote {path}", quiet=quiet)
    if form == "markdown":
        emit(reports.render_limits_markdown(frontiers), output)
    elif form == "json":
        emit(json_text(reports.build_limits(frontiers)), output)
    else:
        emit(reports.render_limits_terminal(frontiers, **looks(output)), output)


def _parse_widths(text: str) -> tuple[int, ...]:
    if text == "own":
        return ()
    try:
        found = tuple(int(word) for word in text.split(","))
    except ValueError:
        raise click.UsageError(f"--widths takes numbers or 'own', not {text!r}") from None
    if not all(0 < width < 1 << 32 for width in found):
        raise click.UsageError("widths are at least 1")
    return found


def _choose_cases(ops: tuple[str, ...], file: Path | None, shape: str | None) -> list[Case]:
    """Return the case of each operator to grow: the smallest in the file, or the catalogue's example."""
    from ttmem.operators.case import read_cases
    from ttmem.operators.sweeps.limits import base_case, find_smallest_cases
    from ttmem.twin.tensor_spec import parse_shape

    if file is None:
        if not ops:
            raise click.UsageError("which operator? --op NAME, or --cases FILE")
        return [base_case(op, parse_shape(shape) if shape else None) for op in ops]
    found = find_smallest_cases(read_cases(file), ops)
    if not found:
        raise click.UsageError(f"no case of {', '.join(ops)} in {file}")
    return found


def compare_sweeps(before: str | Path, after: str | Path, *, fail_on: str | None = None) -> SweepDiff:
    """Compare two folders of ``ttmem sweep run``, case by case.

    ``fail_on`` defines a regression: ``new-failure``, or ``growth:5%`` of a peak (new failures count too).
    """
    from ttmem.operators.sweeps.comparison import compare_folders, parse_fail_on
    from ttmem.reports.sweep_diff import build_document

    limit = parse_fail_on(fail_on) if fail_on is not None else None
    before, after = Path(before), Path(after)
    found = compare_folders(before, after)
    regression = fail_on is not None and found.is_regression(limit)
    return build_document(found, before=before.name, after=after.name, regression=regression)


@verb(
    """
ttmem sweep diff results-0.78.0 results
ttmem sweep diff before after --fail-on new-failure
ttmem sweep diff before after --fail-on growth:5% --json
""",
    group=command,
    line="Compare two sweeps: which cases need more memory, newly fail or newly pass.",
)
@click.argument("before", metavar="A", type=click.Path(path_type=Path))
@click.argument("after", metavar="B", type=click.Path(path_type=Path))
@click.option("--fail-on", metavar="WHAT", help="Exit 1 on new-failure, or on growth:5% of a peak (or a new failure).")
@options.json_option
@options.output_option
def diff(before: Path, after: Path, fail_on: str | None, as_json: bool, output: Path | None) -> int:
    """Compare two folders of 'ttmem sweep run', case by case: which need more memory, newly fail or newly pass.

    Two releases of ttnn (sweep run --ttnn VERSION), two boards' builds, twin against mock, before and after a change.
    """
    from ttmem.reports.sweep_diff import render_terminal

    found = compare_sweeps(before, after, fail_on=fail_on)
    emit(json_text(found) if as_json else render_terminal(found, **looks(output)), output)
    return 1 if found.regression else 0
