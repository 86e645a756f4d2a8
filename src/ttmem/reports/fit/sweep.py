# SPDX-License-Identifier: Apache-2.0
"""A model over a range of sizes: a table, CSV, and a drawing of how full DRAM gets."""

from math import log2

from ttmem.reports.fit.document import FitPoint, FitSweep
from ttmem.reports.kit import tables
from ttmem.reports.kit.charts import Axis, Curve, LineChart, Tick, drawing
from ttmem.reports.kit.tables import Table, mib_column, number_column, percent_column, text_column

_MOST_PERCENT = 120.0


def table(answer: FitSweep) -> Table:
    """A row per point."""
    names = list(answer.points[0].at)
    columns = [
        *(number_column(name) for name in names),
        text_column("fits"),
        percent_column("DRAM"),
        mib_column("DRAM peak MiB per bank"),
        text_column("first failure"),
    ]
    rows = [
        (
            *one.at.values(),
            "yes" if one.fits else "NO",
            one.peak_percent,
            one.peak_bytes_per_bank,
            one.failure_class,
        )
        for one in answer.points
    ]
    return Table(columns, rows)


def render(answer: FitSweep) -> str:
    return tables.plain(table(answer))


def csv(answer: FitSweep) -> str:
    """Bytes and not MiB, for programs."""
    names = list(answer.points[0].at)
    lines = [",".join((*names, "fits", "peak_bytes_per_bank", "peak_percent", "weights_bytes", "failure_class"))]
    lines += [
        tables.csv_line(
            map(
                str,
                (
                    *one.at.values(),
                    str(one.fits).lower(),
                    one.peak_bytes_per_bank,
                    one.peak_percent,
                    one.weights_bytes,
                    one.failure_class or "",
                ),
            )
        )
        for one in answer.points
    ]
    return "\n".join(line.rstrip("\n") for line in lines)


def svg(answer: FitSweep) -> str:
    """The quantity with most values across in powers of two, how full DRAM gets upwards; a line per combination."""
    names = list(answer.points[0].at)
    across = max(names, key=lambda name: len({one.at[name] for one in answer.points}))
    curves: dict[str, list[FitPoint]] = {}
    for one in answer.points:
        rest = ", ".join(f"{name} {one.at[name]}" for name in names if name != across)
        curves.setdefault(rest or answer.name, []).append(one)
    values = sorted({one.at[across] for one in answer.points})
    top = min(max(100.0, *((one.peak_percent or 0.0) for one in answer.points)), _MOST_PERCENT)
    x = Axis(
        across, log2(values[0]), max(log2(values[-1]), log2(values[0]) + 1), [Tick(log2(v), f"{v}") for v in values]
    )
    y = Axis("DRAM, % of a bank", 0.0, top, [Tick(float(at), f"{at}") for at in range(0, int(top) + 1, 20)])
    lines = [
        Curve(
            label,
            [(log2(one.at[across]), min(one.peak_percent or 0.0, top)) for one in found],
            [f"{one.at[across]}: {'fits' if one.fits else 'does not fit'}" for one in found],
        )
        for label, found in curves.items()
    ]
    return drawing(LineChart(f"{answer.name} on {answer.board}", x, y, lines))
