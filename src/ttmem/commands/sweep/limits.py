# SPDX-License-Identifier: Apache-2.0
"""``ttmem sweep limits``: Find the largest shape per operator that passes, by progressive search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ttmem.commands import options
from ttmem.commands.output import emit, json_text, looks, note
from ttmem.commands.command_line import verb

if TYPE_CHECKING:
    from ttmem.operators.case import Case


@verb("""
ttmem sweep limits --op silu --board n150
ttmem sweep limits --op add,mul --memory L1 --engine mock --html limits.html
ttmem sweep limits --op matmul --shape 1x1x32x1024 --json
ttmem sweep limits --cases cases.jsonl --op convolution --dim 0
""")
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
def command(
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
    from ttmem.operators.sweeps.plan import Settings
    from ttmem.reports.sweep import limits as report
    from ttmem.reports.sweep.document import limits_document
    from ttmem.twin.tensor_spec import LAYOUTS

    form = options.one_of(json=as_json, markdown=as_markdown)
    chosen = WIDTHS if widths is None and shape is None else _numbers(widths or "own")
    frontiers = find_limits(
        _grown_cases(ops, cases, shape),
        settings=Settings(engine, l1_small, trace_region, None if dtype == "model" else dtype, python=python),
        boards=[BOARDS.find(board).name for board in boards or ("n150",)],
        memories=[MEMORIES.find(memory).name for memory in memories or ("DRAM", "L1")],
        layouts=[LAYOUTS.find(layout).name for layout in layouts or ("tile",)],
        dim=dim,
        widths=chosen,
        watch=None if quiet else lambda limit: note(f"{limit.op} {limit.board} {limit.memory}: {limit.shape} passes"),
    )
    for path, content in ((html, report.page), (svg, report.svg)):
        if path:
            emit(content(frontiers), path)
            note(f"wrote {path}", quiet=quiet)
    if form == "markdown":
        emit(report.markdown(frontiers), output)
    else:
        emit(json_text(limits_document(frontiers)) if form else report.text(frontiers, **looks(output)), output)


def _numbers(text: str) -> tuple[int, ...]:
    if text == "own":
        return ()
    try:
        found = tuple(int(word) for word in text.split(","))
    except ValueError:
        raise click.UsageError(f"--widths takes numbers or 'own', not {text!r}") from None
    if not all(0 < width < 1 << 32 for width in found):
        raise click.UsageError("widths are at least 1")
    return found


def _grown_cases(ops: tuple[str, ...], file: Path | None, shape: str | None) -> list[Case]:
    from ttmem.operators.case_files import read_cases
    from ttmem.operators.catalogue_entries import catalogue
    from ttmem.operators.sweeps.limits import base_case
    from ttmem.operators.sweeps.plan import padded_tile_elements
    from ttmem.twin.tensor_text import parse_shape

    if file is None:
        if not ops:
            raise click.UsageError("which operator? --op NAME, or --cases FILE")
        return [base_case(op, parse_shape(shape) if shape else None) for op in ops]
    wanted = {catalogue().aten_name(op) for op in ops}
    smallest: dict[str, Case] = {}
    for case in sorted(read_cases(file), key=padded_tile_elements):
        if not wanted or case.op in wanted:
            smallest.setdefault(case.op, case)
    if not smallest:
        raise click.UsageError(f"no case of {', '.join(ops)} in {file}")
    return list(smallest.values())
