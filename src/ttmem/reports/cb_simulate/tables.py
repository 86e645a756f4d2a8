# SPDX-License-Identifier: Apache-2.0
"""The rows of a simulation, once for the terminal, Markdown and the page; and the sentences that go with them."""

from collections.abc import Callable, Mapping, Sequence

from ttmem.circular_buffers.assumptions import TRANSFER_BYTES, TRANSFERS, VARIATIONS, Assumptions
from ttmem.circular_buffers.buffer_depths import TOLERANCE_PERCENT, Recommendation
from ttmem.circular_buffers.simulate import CRITICAL_LOSS_PERCENT, Critical, Simulation, StrategyResult
from ttmem.circular_buffers.stall_time import COMPUTE_BOUND, DEADLOCK, READER_BOUND, SERIALISED, START_UP, WRITER_BOUND
from ttmem.reports.kit.tables import Table
from ttmem.reports.kit.units import bounds_text, kib, one_line

_CAUSES = {
    READER_BOUND: "compute waits for the reader: more tiles per barrier help, more depth alone does not",
    WRITER_BOUND: "compute waits for room: the writer is the slowest",
    COMPUTE_BOUND: "compute hardly waits: it is the slowest itself",
    SERIALISED: "reader and compute take turns: fewer than two batches of depth",
    START_UP: "most of the wait is the first tiles arriving, which no depth can save",
    DEADLOCK: "the program hangs",
}


def title(simulation: Simulation) -> str:
    """What was simulated."""
    return f"{simulation.workload} tiles ({simulation.workload.class_name} workload)"


def of_workload(simulation: Simulation) -> list[Table]:
    """All tables about one workload."""
    buffers = list(dict.fromkeys(name for result in simulation.results.values() for name in result.tiles))
    return [
        _by_strategy(simulation, "Predicted (simulated)", _PREDICTED),
        _by_strategy(simulation, "Allocated (computed)", _ALLOCATED, buffers),
        _by_strategy(simulation, "As the guide counts (heuristic: not a slowdown)", _COMPATIBLE),
        choices(simulation),
    ]


def failures(simulation: Simulation) -> list[str]:
    """What does not fit, in the library's words."""
    return [f"{name}: {result.l1.failure}" for name, result in simulation.results.items() if result.l1.failure]


def headline(simulation: Simulation) -> list[str]:
    """The answer in sentences: what stalls, what depth can do about it, what to choose."""
    lines = []
    for name, result in simulation.results.items():
        stall = result.stall
        if stall.cause == DEADLOCK:
            lines.append(f"{one_line(name)}: hangs. {'; '.join(stall.deadlock)}")
            continue
        if result.broken_rules:
            lines.append(f"{one_line(name)}: breaks a rule. {'; '.join(result.broken_rules)}")
            continue
        lines.append(
            f"{one_line(name)}: compute stalls {bounds_text(stall.stall_percent)} % of the time ({stall.cause}); "
            f"deeper buffers could save {bounds_text(stall.depth_loss_percent)} %"
        )
    choice = simulation.best
    lines.append(
        f"Recommended: {choice.tiles_per_barrier} tiles per barrier with {tiles_text(choice.tiles)} = "
        f"{kib(choice.total_bytes)} KiB, {bounds_text(choice.cycles_per_pair, 0)} cycles per pair of tiles"
    )
    return lines


def causes(simulations: Sequence[Simulation]) -> list[str]:
    """What the causes that occur mean."""
    seen = {result.stall.cause for simulation in simulations for result in simulation.results.values()}
    return [f"{cause}: {_CAUSES[cause]}" for cause in _CAUSES if cause in seen]


def _fits(result: StrategyResult) -> str:
    if result.l1.failure is not None:
        return "no"
    return "yes" if result.l1.kernels_fit is not False else "kernels do not"


_Cells = Mapping[str, Callable[[StrategyResult], str]]
_PREDICTED: _Cells = {
    "Stall %": lambda result: bounds_text(result.stall.stall_percent),
    "Lost to depth %": lambda result: bounds_text(result.stall.depth_loss_percent),
    "Cycles per pair": lambda result: (
        "-" if result.stall.cause == DEADLOCK else bounds_text(result.stall.cycles_per_pair, 0)
    ),
    "Score": lambda result: str(result.stall.pressure_score),
    "Cause": lambda result: result.stall.cause,
}
_ALLOCATED: _Cells = {
    "KiB": lambda result: kib(result.total_bytes),
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


def _by_strategy(simulation: Simulation, title: str, cells: _Cells, buffers: Sequence[str] = ()) -> Table:
    rows = [
        (
            one_line(name),
            *(str(result.tiles.get(buffer, "-")) for buffer in buffers),
            *(cell(result) for cell in cells.values()),
        )
        for name, result in simulation.results.items()
    ]
    return Table.of_texts(("Strategy", *buffers, *cells), rows, left=1, title=title)


def choices(simulation: Simulation) -> Table:
    """Depths worth their L1, per batch size."""
    rows = tuple(_choice(choice, choice is simulation.best) for choice in simulation.recommendations)
    heads = ("Tiles per barrier", "Depths", "KiB", "Cycles per pair", "Lost %", "")
    title = f"Depths within {TOLERANCE_PERCENT:g} % of unlimited depth (simulated)"
    return Table.of_texts(heads, rows, left=2, title=title)


def _choice(choice: Recommendation, best: bool) -> tuple[str, ...]:
    remark = "recommended" if best else "" if choice.reaches_bound else "bound not reached"
    return (
        str(choice.tiles_per_barrier),
        tiles_text(choice.tiles),
        kib(choice.total_bytes),
        bounds_text(choice.cycles_per_pair, 0),
        f"{choice.loss_percent:.1f}",
        remark,
    )


def scaling(simulations: Sequence[Simulation]) -> Table:
    """All workloads and strategies."""
    rows = [
        (
            str(simulation.workload),  # in every row: the page sorts and filters them
            simulation.workload.class_name,
            one_line(name),
            "/".join(map(str, result.tiles.values())),
            kib(result.total_bytes),
            bounds_text(result.stall.stall_percent),
            bounds_text(result.stall.depth_loss_percent),
            f"{result.heuristic.miss_rate_percent:.1f}",
            result.heuristic.risk,
        )
        for simulation in simulations
        for name, result in simulation.results.items()
    ]
    heads = ("Workload", "Class", "Strategy", "Tiles", "KiB", "Stall %", "Lost to depth %", "Miss %", "Risk")
    return Table.of_texts(heads, rows, left=4, title="Scaling (stall simulated, miss rate and risk heuristic)")


def critical_lines(critical: Mapping[str, Critical]) -> list[str]:
    """Where pressure becomes critical."""
    lines = []
    for name, point in critical.items():
        guide = f"from {point.by_guide}" if point.by_guide else "never"
        simulated = f"from {point.by_simulation}" if point.by_simulation else "never"
        lines.append(
            f"{one_line(name)}: risk HIGH by the guide {guide}; "
            f"depth costs more than {CRITICAL_LOSS_PERCENT:g} % of the time {simulated} (simulated)"
        )
    return lines


def assumption_lines(machine: Assumptions) -> list[str]:
    """What the simulation rests on, in words."""
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


def tiles_text(tiles: Mapping[str, int]) -> str:
    """``cb0=4 cb1=4``."""
    return " ".join(f"{name}={count}" for name, count in tiles.items())
