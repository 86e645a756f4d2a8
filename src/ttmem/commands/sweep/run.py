# SPDX-License-Identifier: Apache-2.0
"""``ttmem sweep run``: Run cases on the twin, a mock board or a card, and keep a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands._known import DATA_TYPE
from ttmem.commands._options import quiet_option
from ttmem.commands._output import emit, json_text, note
from ttmem.commands._runner import verb

if TYPE_CHECKING:
    from ttmem.sweep.expectations import Deviation
    from ttmem.sweep.progress import Finished, Progress

_EXAMPLES = """
ttmem sweep run cases.jsonl -o results
ttmem sweep run cases.jsonl --engine mock --board n150,p150 --memory DRAM,L1 --workers 2 -o results
ttmem sweep run cases.jsonl --engine mock --scheduler tcp://10.0.0.1:8786 -o results
ttmem sweep run cases.jsonl -o results --expect expected.jsonl
"""


def words(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """``--board n150,p150`` and ``--board n150 --board p150`` are the same."""
    return tuple(word.strip() for text in value for word in text.split(",") if word.strip())


def opening_options(function: Any) -> Any:
    """How the boards are opened; the same for every verb that asks an engine."""
    for option in reversed(
        (
            click.option(
                "--l1-small",
                type=click.IntRange(min=0),
                default=32768,
                show_default=True,
                metavar="BYTES",
                help="L1_SMALL region per core; convolutions and pools need one.",
            ),
            click.option(
                "--trace-region",
                type=click.IntRange(min=0),
                default=0,
                show_default=True,
                metavar="BYTES",
                help="TRACE region in DRAM.",
            ),
            click.option(
                "--dtype",
                type=DATA_TYPE.or_word("model"),
                default="bfloat16",
                show_default=True,
                metavar="TYPE",
                help="What the models' floats are on the device; 'model': as recorded.",
            ),
            click.option("--python", metavar="PATH", help="An interpreter that has ttnn (also: TTMEM_TTNN_PYTHON)."),
        )
    ):
        function = option(function)
    return function


@verb("run", examples=_EXAMPLES)
@click.argument("cases", metavar="CASES", type=click.Path(path_type=Path))
@click.option(
    "--engine",
    type=click.Choice(["twin", "mock", "card"]),
    default="twin",
    show_default=True,
    help="The model in Python, the real library without a card, or with one.",
)
@click.option("--board", "boards", multiple=True, callback=words, metavar="BOARD,..", help="Boards (default n150).")
@click.option(
    "--memory", "memories", multiple=True, callback=words, metavar="MEMORY,..", help="DRAM, L1 (default both)."
)
@click.option(
    "--layout", "layouts", multiple=True, callback=words, metavar="LAYOUT,..", help="tile, row_major (default tile)."
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes with the real library (default: one per processor).",
)
@click.option("--scheduler", metavar="ADDRESS", help="Hand the cases to this Dask cluster: tcp://HOST:PORT.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest a single call may take.",
)
@opening_options
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Journal and results; a second call resumes.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Exit 1 when a case does not pass (or, with --expect, is not listed and does not pass).",
)
@click.option(
    "--expect",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What is known to fail: exit 1 when a status differs.",
)
@click.option(
    "--save-expectations",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write today's failures as such a file.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@quiet_option
def command(
    cases: Path,
    engine: str,
    boards: tuple[str, ...],
    memories: tuple[str, ...],
    layouts: tuple[str, ...],
    workers: int | None,
    scheduler: str | None,
    timeout: float,
    l1_small: int,
    trace_region: int,
    dtype: str,
    python: str | None,
    folder: Path,
    strict: bool,
    expect: Path | None,
    save_expectations: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run CASES (of 'ttmem ops extract') and write FOLDER/journal.sqlite and FOLDER/results.jsonl.

    Small cases come first, so that limits appear early. A run that was interrupted or killed goes on where it was. Each
    case runs alone on an empty device ("isolated": true on each result).
    """
    from ttmem.operators import read_cases
    from ttmem.sweep import expectations
    from ttmem.sweep.journal import read_results
    from ttmem.sweep.plan import SWEPT_MEMORIES, Settings, make_plan
    from ttmem.sweep.run import run_sweep

    settings = Settings(engine, l1_small, trace_region, None if dtype == "model" else dtype, timeout, python)
    expected = expectations.read(expect) if expect else None
    plan = make_plan(
        read_cases(cases),
        settings=settings,
        boards=boards or ("n150",),
        memories=memories or SWEPT_MEMORIES,
        layouts=layouts or ("tile",),
    )
    with live_table(quiet=quiet) as watch:
        finished = run_sweep(plan, folder, workers=workers, scheduler=scheduler, watch=watch, cases_file=cases.name)
    keys = {point.key(engine) for point in plan.points}
    rows = [row for row in read_results(folder)[0] if row.key in keys]
    if save_expectations:
        expectations.write(save_expectations, rows)
        note(f"wrote {save_expectations}", quiet=quiet)
    deviations = expectations.compare(rows, expected, strict=strict)
    emit(_answer(finished, rows, deviations, as_json), None)
    return 1 if deviations else 0


def _answer(finished: Finished, rows: list[Any], deviations: list[Deviation], as_json: bool) -> str:
    from ttmem.reports.sweep import terminal as sweep_terminal

    if not as_json:
        return sweep_terminal.render(rows, finished, deviations)
    return json_text(
        {
            "folder": str(finished.folder),
            "results": str(finished.results),
            "cases": finished.total,
            "asked": finished.asked,
            "resumed": finished.resumed,
            "seconds": round(finished.seconds, 3),
            "statuses": sweep_terminal.status_counts(rows),
            "unexpected": [deviation.to_json() for deviation in deviations],
        }
    )


@contextmanager
def live_table(*, quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """A table of statuses with rate and time left on a terminal's stderr; nothing elsewhere."""
    import sys

    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    from ttmem.reports.sweep.terminal import live

    with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as screen:
        yield lambda progress: screen.update(live(progress))
