# SPDX-License-Identifier: Apache-2.0
"""A simulation for a person at a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from ttmem.circular_buffers.depths import Curve
from ttmem.circular_buffers.simulate import Critical, Simulation
from ttmem.reports.cb_simulate import chart as cb_chart
from ttmem.reports.cb_simulate import tables as cb_tables
from ttmem.reports.cb_simulate.tables import CbTable


def single(simulation: Simulation, curves: Sequence[Curve], *, width: int = 100, color: bool = False) -> str:
    """One workload: the sentences first, then the tables behind them."""
    workload = simulation.workload
    console, file = paper(width, color)
    console.print(f"{workload} tiles ({workload.class_name} workload)", style="bold")
    for line in cb_tables.headline(simulation):
        console.print(f"  {line}")
    tables = (cb_tables.predicted, cb_tables.allocated, cb_tables.compatible, cb_tables.choices)
    for build in tables:
        show(console, build(simulation))
    if curves:
        console.print()
        console.print("Throughput over depth, tiles per 1000 cycles (simulated; light: constant times)", style="bold")
        console.print("              depth")
        for line in cb_chart.bars(curves, console.width):
            console.print(line, no_wrap=True, overflow="crop")
    _closing(console, [simulation], failures(simulation))
    return text(file)


def multi(
    simulations: Sequence[Simulation], critical: Mapping[str, Critical], *, width: int = 100, color: bool = False
) -> str:
    """The scaling table and where pressure becomes critical."""
    console, file = paper(width, color)
    show(console, cb_tables.scaling(simulations), first=True)
    console.print()
    for line in cb_tables.critical_lines(critical):
        console.print(line)
    _closing(console, simulations, [line for one in simulations for line in failures(one)])
    return text(file)


def failures(simulation: Simulation) -> list[str]:
    """What does not fit, in the library's words."""
    return [f"{name}: {result.l1.failure}" for name, result in simulation.results.items() if result.l1.failure]


def paper(width: int, color: bool) -> tuple[Console, io.StringIO]:
    """A console that writes into a text."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=max(width, 60),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
    )
    return console, file


def text(file: io.StringIO) -> str:
    """What was written, without blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def show(console: Console, found: CbTable, *, first: bool = False) -> None:
    """A table under its title."""
    if not first:
        console.print()
    console.print(found.title, style="bold")
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for number, head in enumerate(found.heads):
        table.add_column(head, justify="left" if number < found.left else "right", overflow="fold")
    for row in found.rows:
        table.add_row(*row)
    console.print(table)


def _closing(console: Console, simulations: Sequence[Simulation], failed: Iterable[str]) -> None:
    console.print()
    for line in failed:
        console.print(line, style="red")
    for line in cb_tables.causes(simulations):
        console.print(line)
    console.print()
    for line in cb_tables.assumption_lines(simulations[0].assumptions):
        console.print(line, style="dim")
