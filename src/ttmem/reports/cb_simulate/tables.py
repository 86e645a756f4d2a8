# SPDX-License-Identifier: Apache-2.0
"""The rows of a simulation, once for the terminal, Markdown and the page; and the sentences that go with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ttmem.circular_buffers.assumptions import VARIATIONS, Assumptions
from ttmem.circular_buffers.depths import TOLERANCE_PERCENT, Recommendation
from ttmem.circular_buffers.noc import TRANSFER_BYTES, TRANSFERS
from ttmem.circular_buffers.simulate import CRITICAL_LOSS_PERCENT, Critical, Simulation, StrategyResult
from ttmem.circular_buffers.stall import (
    COMPUTE_BOUND,
    DEADLOCK,
    READER_BOUND,
    SERIALISED,
    START_UP,
    WRITER_BOUND,
)
from ttmem.reports.kit.units import one_line

KIB = 1024

_CAUSES = {
    READER_BOUND: "compute waits for the reader: more tiles per barrier help, more depth alone does not",
    WRITER_BOUND: "compute waits for room: the writer is the slowest",
    COMPUTE_BOUND: "compute hardly waits: it is the slowest itself",
    SERIALISED: "reader and compute take turns: fewer than two batches of depth",
    START_UP: "most of the wait is the first tiles arriving, which no depth can save",
    DEADLOCK: "the program hangs",
}


@dataclass(frozen=True, slots=True)
class CbTable:
    """Heads and rows; the first ``left`` columns are words, the others figures."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


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
            f"{one_line(name)}: compute stalls {span(stall.stall_percent)} % of the time ({stall.cause}); deeper "
            f"buffers could save {span(stall.depth_loss_percent)} %"
        )
    choice = simulation.best
    lines.append(
        f"Recommended: {choice.tiles_per_barrier} tiles per barrier with {tiles_text(choice.tiles)} = "
        f"{kib(choice.total_bytes)} KB, {span(choice.cycles_per_pair, 0)} cycles per pair of tiles"
    )
    return lines


def causes(simulations: Sequence[Simulation]) -> list[str]:
    """What the causes that occur mean."""
    seen = {result.stall.cause for simulation in simulations for result in simulation.results.values()}
    return [f"{cause}: {_CAUSES[cause]}" for cause in _CAUSES if cause in seen]


def predicted(simulation: Simulation) -> CbTable:
    """The simulated figures."""
    rows = tuple(
        (
            one_line(name),
            span(result.stall.stall_percent),
            span(result.stall.depth_loss_percent),
            "-" if result.stall.cause == DEADLOCK else span(result.stall.cycles_per_pair, 0),
            str(result.stall.pressure_score),
            result.stall.cause,
        )
        for name, result in simulation.results.items()
    )
    heads = ("Strategy", "Stall %", "Lost to depth %", "Cycles per pair", "Score", "Cause")
    return CbTable("Predicted (simulated)", heads, rows)


def allocated(simulation: Simulation) -> CbTable:
    """The computed figures: tiles and L1."""
    names = list(dict.fromkeys(name for result in simulation.results.values() for name in result.tiles))
    rows = tuple(
        (
            one_line(name),
            *(str(result.tiles.get(buffer, "-")) for buffer in names),
            kib(result.total_bytes),
            f"{result.l1.used_percent:.2f}",
            _fits(result),
            f"{result.l1.buffer_config_bytes:,} of {result.l1.kernel_config_bytes:,}",
        )
        for name, result in simulation.results.items()
    )
    heads = ("Strategy", *names, "KB", "% of L1", "Fits", "Kernel config B")
    return CbTable("Allocated (computed)", heads, rows)


def compatible(simulation: Simulation) -> CbTable:
    """The guide's figures."""
    rows = tuple(
        (
            one_line(name),
            f"{result.heuristic.miss_rate_percent:.1f}",
            result.heuristic.risk,
            f"{result.heuristic.utilisation_percent:.1f}",
            result.heuristic.utilisation_band,
        )
        for name, result in simulation.results.items()
    )
    heads = ("Strategy", "CB1 miss %", "Thrashing risk", "Utilisation %", "Pressure by it")
    return CbTable("As the guide counts (heuristic: not a slowdown)", heads, rows)


def choices(simulation: Simulation) -> CbTable:
    """Depths worth their L1, per batch size."""
    rows = tuple(_choice(choice, choice is simulation.best) for choice in simulation.recommendations)
    heads = ("Tiles per barrier", "Depths", "KB", "Cycles per pair", "Lost %", "")
    title = f"Depths within {TOLERANCE_PERCENT:g} % of unlimited depth (simulated)"
    return CbTable(title, heads, rows, left=2)


def _choice(choice: Recommendation, best: bool) -> tuple[str, ...]:
    remark = "recommended" if best else "" if choice.reaches_bound else "bound not reached"
    return (
        str(choice.tiles_per_barrier),
        tiles_text(choice.tiles),
        kib(choice.total_bytes),
        span(choice.cycles_per_pair, 0),
        f"{choice.loss_percent:.1f}",
        remark,
    )


def scaling(simulations: Sequence[Simulation]) -> CbTable:
    """All workloads and strategies."""
    rows = []
    for simulation in simulations:
        for name, result in simulation.results.items():
            rows.append(
                (
                    str(simulation.workload),  # in every row: the page sorts and filters them
                    simulation.workload.class_name,
                    one_line(name),
                    "/".join(map(str, result.tiles.values())),
                    kib(result.total_bytes),
                    span(result.stall.stall_percent),
                    span(result.stall.depth_loss_percent),
                    f"{result.heuristic.miss_rate_percent:.1f}",
                    result.heuristic.risk,
                )
            )
    heads = ("Workload", "Class", "Strategy", "Tiles", "KB", "Stall %", "Lost to depth %", "Miss %", "Risk")
    return CbTable("Scaling (stall simulated, miss rate and risk heuristic)", heads, tuple(rows), left=4)


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


def kib(amount_bytes: int) -> str:
    """``48`` for 49152 B: KiB, called KB as the guide does."""
    return f"{amount_bytes / KIB:,.1f}".removesuffix(".0")


def span(bounds: tuple[float, float], decimals: int = 1) -> str:
    """``28.9-82.5``, or one figure when both ends print alike."""
    low, high = (f"{bound:,.{decimals}f}" for bound in bounds)
    return low if low == high else f"{low}-{high}"


def _fits(result: StrategyResult) -> str:
    if result.l1.failure is not None:
        return "no"
    return "yes" if result.l1.kernels_fit is not False else "kernels do not"
