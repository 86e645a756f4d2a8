# SPDX-License-Identifier: Apache-2.0
"""``ttmem cb simulate``: Compare strategies for the depths of circular buffers: L1 use and predicted stall."""

from pathlib import Path
from typing import Any

import click

from ttmem.commands.options import json_option, output_option, refuse_overwriting, writable_place
from ttmem.commands.cb._options import assumption_options, predicted, workload_of
from ttmem.commands.output import emit, json_text, looks
from ttmem.commands.command_line import verb

_EXAMPLES = """
ttmem cb simulate 16 16
ttmem cb simulate 16 16 --strategy fixed --strategy my.toml
ttmem cb simulate --multi --json
ttmem cb simulate 32 32 --board p150 --tiles-per-barrier 4 --plot depth.svg
"""


@verb(_EXAMPLES)
@click.argument("tiles_per_shard", required=False)
@click.argument("r_tiles", required=False)
@click.option(
    "--multi", is_flag=True, help="The workloads 1, 2, 4, 8, 16, 17, 32, and where pressure becomes critical."
)
@assumption_options
@json_option
@click.option("--html", callback=writable_place, metavar="FILE", help="Also write the report as one offline page.")
@click.option("--plot", callback=writable_place, metavar="FILE.svg", help="Also draw throughput over depth.")
@output_option
def command(
    tiles_per_shard: str | None,
    r_tiles: str | None,
    multi: bool,
    as_json: bool,
    html: Path | None,
    plot: Path | None,
    output: Path | None,
    **assumed: Any,
) -> int:
    """Compare circular buffers for TILES_PER_SHARD A tiles and R_TILES B tiles: depths, L1, predicted stall.

    Every A tile is combined with every B tile, as in the distributed element-wise example. The headline is the share
    of its time that the compute kernel waits, simulated on published NoC latencies and given as a range over what is
    assumed. Miss rate and thrashing risk are the guide's heuristic. Exits 1 when a strategy does not fit, hangs or
    breaks a rule of kernels.
    """
    from ttmem.circular_buffers.analyze import Analysis
    from ttmem.circular_buffers.buffer_depths import throughput_over_depth
    from ttmem.circular_buffers.simulate import critical_points
    from ttmem.circular_buffers.workload import multi as multi_workloads
    from ttmem.reports.cb_analyze import html as cb_html
    from ttmem.reports.cb_simulate import chart as cb_chart
    from ttmem.reports.cb_simulate import document as cb_document
    from ttmem.reports.cb_simulate import terminal as cb_terminal

    if multi == (tiles_per_shard is not None) or (not multi and r_tiles is None):
        raise click.UsageError("give TILES_PER_SHARD and R_TILES, or --multi alone")
    refuse_overwriting("-", output, html, plot)
    workloads = multi_workloads() if multi else (workload_of(str(tiles_per_shard), str(r_tiles)),)
    assumptions, found = predicted(workloads, **assumed)
    curves = throughput_over_depth(assumptions) if plot or html or not multi else ()
    if plot:
        emit(cb_chart.svg(curves), plot)
    if html:
        emit(cb_html.render(Analysis(found, curves)), html)
    critical = critical_points(found)
    if as_json:
        answer = json_text(cb_document.multi(found, critical) if multi else cb_document.single(found[0], curves))
    elif multi:
        answer = cb_terminal.multi(found, critical, **looks(output))
    else:
        answer = cb_terminal.single(found[0], curves, **looks(output))
    emit(answer, output)
    return 0 if all(one.works for one in found) else 1
