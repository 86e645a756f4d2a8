# SPDX-License-Identifier: Apache-2.0
"""A simulation of circular buffers as tables, sentences, text and a drawing."""

import math
from collections.abc import Callable, Mapping, Sequence

from ttmem.base.formatting import flatten_text, format_kib_number, format_range
from ttmem.circular_buffers.kernels import TOLERANCE_PERCENT, Recommendation, ThroughputCurve
from ttmem.circular_buffers.simulate import CRITICAL_LOSS_PERCENT, Critical, Simulation, StrategyResult
from ttmem.circular_buffers.stall_time import COMPUTE_BOUND, DEADLOCK, READER_BOUND, SERIALISED, START_UP, WRITER_BOUND
from ttmem.circular_buffers.workload import TRANSFER_BYTES, TRANSFERS, VARIATIONS, Assumptions
from ttmem.reports.kit import charts
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table

_CAUSES = {
    READER_BOUND: "compute waits for the reader: more tiles per barrier help, more depth alone does not",
    WRITER_BOUND: "compute waits for room: the writer is the slowest",
    COMPUTE_BOUND: "compute hardly waits: it is the slowest itself",
    SERIALISED: "reader and compute take turns: fewer than two batches of depth",
    START_UP: "most of the wait is the first tiles arriving, which no depth can save",
    DEADLOCK: "the program hangs",
}


def format_title(simulation: Simulation) -> str:
    """Return the heading of a simulation."""
    return f"{simulation.workload} tiles ({simulation.workload.class_name} workload)"


def build_workload_tables(simulation: Simulation) -> list[Table]:
    """Build all tables about one workload."""
    buffers = list(dict.fromkeys(name for result in simulation.results.values() for name in result.tiles))
    return [
        _build_strategy_table(simulation, "Predicted (simulated)", _PREDICTED),
        _build_strategy_table(simulation, "Allocated (computed)", _ALLOCATED, buffers),
        _build_strategy_table(simulation, "As the guide counts (heuristic: not a slowdown)", _COMPATIBLE),
        build_choices(simulation),
    ]


def list_failures(simulation: Simulation) -> list[str]:
    """List what does not fit, in the library's words."""
    return [f"{name}: {result.l1.failure}" for name, result in simulation.results.items() if result.l1.failure]


def list_headlines(simulation: Simulation) -> list[str]:
    """List the answer in sentences: the stalls, the effect of deeper buffers, the recommendation."""
    lines = []
    for name, result in simulation.results.items():
        stall = result.stall
        if stall.cause == DEADLOCK:
            lines.append(f"{flatten_text(name)}: hangs. {'; '.join(stall.deadlock)}")
            continue
        if result.broken_rules:
            lines.append(f"{flatten_text(name)}: breaks a rule. {'; '.join(result.broken_rules)}")
            continue
        lines.append(
            f"{flatten_text(name)}: compute stalls {format_range(stall.stall_percent)} % of the time ({stall.cause}); "
            f"deeper buffers could save {format_range(stall.depth_loss_percent)} %"
        )
    choice = simulation.best
    lines.append(
        f"Recommended: {choice.tiles_per_barrier} tiles per barrier with {format_tiles(choice.tiles)} = "
        f"{format_kib_number(choice.total_bytes)} KiB, "
        f"{format_range(choice.cycles_per_pair, 0)} cycles per pair of tiles"
    )
    return lines


def explain_causes(simulations: Sequence[Simulation]) -> list[str]:
    """Explain the causes that occur."""
    seen = {result.stall.cause for simulation in simulations for result in simulation.results.values()}
    return [f"{cause}: {_CAUSES[cause]}" for cause in _CAUSES if cause in seen]


def _fits(result: StrategyResult) -> str:
    if result.l1.failure is not None:
        return "no"
    return "yes" if result.l1.kernels_fit is not False else "kernels do not"


_Cells = Mapping[str, Callable[[StrategyResult], str]]
_PREDICTED: _Cells = {
    "Stall %": lambda result: format_range(result.stall.stall_percent),
    "Lost to depth %": lambda result: format_range(result.stall.depth_loss_percent),
    "Cycles per pair": lambda result: (
        "-" if result.stall.cause == DEADLOCK else format_range(result.stall.cycles_per_pair, 0)
    ),
    "Score": lambda result: str(result.stall.pressure_score),
    "Cause": lambda result: result.stall.cause,
}
_ALLOCATED: _Cells = {
    "KiB": lambda result: format_kib_number(result.total_bytes),
    "% of L1": lambda result: f"{result.l1.used_percent:.2f}",
    "Fits": _fits,
    "Kernel config B": lambda result: f"{result.l1.buffer_config_bytes:,} of {result.l1.kernel_config_bytes:,}",
}
_COMPATIBLE: _Cells = {
    "CB1 miss %": lambda result: f"{result.heuristic.miss_rate_percent:.1f}",
    "Thrashing risk": lambda result: result.heuristic.risk,
    "Utilisation %": lambda result: f"{result.heuristic.utilisation_percent:.1f}",
    "Pressure by it": lambda result: result.heuristic.utilisation_band,
}


def _build_strategy_table(simulation: Simulation, title: str, cells: _Cells, buffers: Sequence[str] = ()) -> Table:
    rows = [
        (
            flatten_text(name),
            *(str(result.tiles.get(buffer, "-")) for buffer in buffers),
            *(cell(result) for cell in cells.values()),
        )
        for name, result in simulation.results.items()
    ]
    return Table.build(("Strategy", *buffers, *cells), rows, left=1, title=title)


def build_choices(simulation: Simulation) -> Table:
    """Build the table of depths worth their L1, per batch size."""
    rows = tuple(_build_choice_row(choice, choice is simulation.best) for choice in simulation.recommendations)
    heads = ("Tiles per barrier", "Depths", "KiB", "Cycles per pair", "Lost %", "")
    title = f"Depths within {TOLERANCE_PERCENT:g} % of unlimited depth (simulated)"
    return Table.build(heads, rows, left=2, title=title)


def _build_choice_row(choice: Recommendation, best: bool) -> tuple[str, ...]:
    remark = "recommended" if best else "" if choice.reaches_bound else "bound not reached"
    return (
        str(choice.tiles_per_barrier),
        format_tiles(choice.tiles),
        format_kib_number(choice.total_bytes),
        format_range(choice.cycles_per_pair, 0),
        f"{choice.loss_percent:.1f}",
        remark,
    )


def build_scaling(simulations: Sequence[Simulation]) -> Table:
    """Build the table of all workloads and strategies."""
    rows = [
        (
            str(simulation.workload),  # in every row: the page sorts and filters them
            simulation.workload.class_name,
            flatten_text(name),
            "/".join(map(str, result.tiles.values())),
            format_kib_number(result.total_bytes),
            format_range(result.stall.stall_percent),
            format_range(result.stall.depth_loss_percent),
            f"{result.heuristic.miss_rate_percent:.1f}",
            result.heuristic.risk,
        )
        for simulation in simulations
        for name, result in simulation.results.items()
    ]
    heads = ("Workload", "Class", "Strategy", "Tiles", "KiB", "Stall %", "Lost to depth %", "Miss %", "Risk")
    return Table.build(heads, rows, left=4, title="Scaling (stall simulated, miss rate and risk heuristic)")


def list_critical_points(critical: Mapping[str, Critical]) -> list[str]:
    """List the workloads from which on pressure is critical."""
    lines = []
    for name, point in critical.items():
        guide = f"from {point.by_guide}" if point.by_guide else "never"
        simulated = f"from {point.by_simulation}" if point.by_simulation else "never"
        lines.append(
            f"{flatten_text(name)}: risk HIGH by the guide {guide}; "
            f"depth costs more than {CRITICAL_LOSS_PERCENT:g} % of the time {simulated} (simulated)"
        )
    return lines


def list_assumptions(machine: Assumptions) -> list[str]:
    """List the assumptions of the simulation as sentences."""
    low, high = machine.compute_cycles
    batch, cores = machine.tiles_per_barrier, machine.cores
    exact = batch in TRANSFERS and machine.tile_bytes in TRANSFER_BYTES and cores == 1
    where = (
        f"{machine.memory_map.board_name} ({machine.architecture}), {machine.data_type} tiles of "
        f"{machine.tile_bytes:,} B, {batch} per barrier, {cores} core{'s' if cores > 1 else ''} at once"
    )
    measured = (
        f"measured (tt-metal's latency table{'' if exact else ', interpolated'}): "
        f"{machine.transfer_cycles('read', batch):,.0f} cycles per read barrier, "
        f"{machine.transfer_cycles('write', 1):,.0f} per write"
    )
    assumed = (
        f"assumed: {low:g} to {high:g} cycles to combine two tiles, {machine.sync_cycles:g} until a push is seen, "
        f"transfer times that vary by {', '.join(f'{value:g}' for value in VARIATIONS)} of their mean"
    )
    missing = (
        "not modelled: conflicts on the NoC, the split of compute into unpack, math and pack; "
        "nothing here ran on a card"
    )
    return [where, measured, assumed, missing]


def format_tiles(tiles: Mapping[str, int]) -> str:
    """``cb0=4 cb1=4``."""
    return " ".join(f"{name}={count}" for name, count in tiles.items())


def render_svg(curves: Sequence[ThroughputCurve]) -> str:
    """Render the drawing as a complete SVG."""
    return charts.draw_svg(build_chart(curves))


def build_chart(curves: Sequence[ThroughputCurve]) -> charts.LineChart:
    """Build the chart; depth is on a logarithmic axis, because each doubling brings less.

    A line is the rate with constant transfer times, the band below it reaches down to the rate with varying ones.
    """
    depths = sorted({depth for curve in curves for depth in curve.depth_tiles})
    top = charts.round_step(_find_highest(curves), (1, 2, 4, 6, 8, 10))
    ticks = [charts.Tick(top * step / 4, f"{top * step / 4:g}") for step in range(5)]
    return charts.LineChart(
        title="Throughput over the depth of both circular buffers",
        x=charts.Axis(
            "depth of both buffers, tiles",
            0.0,
            max(math.log2(depths[-1]), 1.0),
            [charts.Tick(math.log2(depth), str(depth)) for depth in depths],
        ),
        y=charts.Axis("tiles per 1000 cycles", 0.0, top, ticks),
        curves=[
            charts.Curve(
                f"{curve.tiles_per_barrier} per barrier",
                [(math.log2(depth), high) for depth, (_, high) in curve.points],
                [f"depth {depth}: {format_range(rates, 2)} tiles per 1000 cycles" for depth, rates in curve.points],
                low=[low for low, _ in curve.tiles_per_kilocycle],
            )
            for curve in curves
        ],
        width=640.0,
        height=300.0,
        right=130.0,
    )


def draw_bars(curves: Sequence[ThroughputCurve], width: int) -> list[str]:
    """Draw bars of text: full blocks up to the rate with varying times, light ones up to that with constant times."""
    highest = _find_highest(curves)
    room = max(10, width - 34)
    lines = []
    for curve in curves:
        for number, (depth, rates) in enumerate(curve.points):
            low, high = (round(room * rate / highest) for rate in rates)
            head = f"{curve.tiles_per_barrier} per barrier" if number == 0 else ""
            lines.append(f"{head:<14}{depth:>4}  {'█' * low}{'░' * (high - low)} {format_range(rates, 2)}")
    return lines


def _find_highest(curves: Sequence[ThroughputCurve]) -> float:
    return max(high for curve in curves for _, high in curve.tiles_per_kilocycle)


def render_single(
    simulation: Simulation, curves: Sequence[ThroughputCurve], *, width: int = 100, color: bool = False
) -> str:
    """Render one workload: the sentences first, then their tables."""
    report = TextReport(width, color=color)
    report.print(format_title(simulation), style="bold")
    report.print(*(f"  {line}" for line in list_headlines(simulation)))
    for table in build_workload_tables(simulation):
        report.print_titled(table)
    if curves:
        report.print()
        report.print("Throughput over depth, tiles per 1000 cycles (simulated; light: constant times)", style="bold")
        report.print("              depth")
        for line in draw_bars(curves, report.width):
            report.print_unfolded(line)
    return _finish(report, [simulation])


def render_multi(
    simulations: Sequence[Simulation], critical: Mapping[str, Critical], *, width: int = 100, color: bool = False
) -> str:
    """Render the scaling table and the critical workloads."""
    report = TextReport(width, color=color)
    report.print_titled(build_scaling(simulations), spaced=False)
    report.print("", *list_critical_points(critical))
    return _finish(report, simulations)


def _finish(report: TextReport, simulations: Sequence[Simulation]) -> str:
    report.print()
    for line in (line for one in simulations for line in list_failures(one)):
        report.print(line, style="red")
    report.print(*explain_causes(simulations), "")
    for line in list_assumptions(simulations[0].assumptions):
        report.print(line, style="dim")
    return report.render()
