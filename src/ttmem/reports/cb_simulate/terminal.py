# SPDX-License-Identifier: Apache-2.0
"""A simulation for a person at a terminal."""

from collections.abc import Mapping, Sequence

from ttmem.circular_buffers.buffer_depths import Curve
from ttmem.circular_buffers.simulate import Critical, Simulation
from ttmem.reports.cb_simulate import tables
from ttmem.reports.cb_simulate.chart import bars
from ttmem.reports.kit.console import TextReport


def single(simulation: Simulation, curves: Sequence[Curve], *, width: int = 100, color: bool = False) -> str:
    """One workload: the sentences first, then the tables behind them."""
    report = TextReport(width, color=color)
    report.print(tables.title(simulation), style="bold")
    report.print(*(f"  {line}" for line in tables.headline(simulation)))
    for table in tables.of_workload(simulation):
        report.titled(table)
    if curves:
        report.print()
        report.print("Throughput over depth, tiles per 1000 cycles (simulated; light: constant times)", style="bold")
        report.print("              depth")
        for line in bars(curves, report.width):
            report.print_unfolded(line)
    return _closed(report, [simulation])


def multi(
    simulations: Sequence[Simulation], critical: Mapping[str, Critical], *, width: int = 100, color: bool = False
) -> str:
    """The scaling table and where pressure becomes critical."""
    report = TextReport(width, color=color)
    report.titled(tables.scaling(simulations), spaced=False)
    report.print("", *tables.critical_lines(critical))
    return _closed(report, simulations)


def _closed(report: TextReport, simulations: Sequence[Simulation]) -> str:
    report.print()
    for line in (line for one in simulations for line in tables.failures(one)):
        report.print(line, style="red")
    report.print(*tables.causes(simulations), "")
    for line in tables.assumption_lines(simulations[0].assumptions):
        report.print(line, style="dim")
    return report.text()
