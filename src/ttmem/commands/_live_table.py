# SPDX-License-Identifier: Apache-2.0
"""How ``ttmem live`` looks: one table, a row per chip and below it a row per process."""

from __future__ import annotations

import io
from dataclasses import astuple
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ttmem.analysis.amounts import MIB

if TYPE_CHECKING:
    from ttmem.live import Counters, DeviceCounters, PeakHold, Sample

_HEADINGS = ("DRAM", "L1", "L1_SMALL", "TRACE", "circular")


def text(seen: Sample, peaks: PeakHold, *, width: int, color: bool) -> str:
    """The table for a pipe or a single look."""
    if not seen.devices:
        return nothing_in(seen)
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        emoji=False,
        markup=False,
    )
    console.print(table(seen, peaks))
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def nothing_in(seen: Sample) -> str:
    """One line, never folded: a folder is copied from it."""
    return f"no counters in {seen.folder}"


def table(seen: Sample, peaks: PeakHold) -> RenderableType:
    """Bytes in MB (MiB) of a whole chip; the peaks are those since watching began."""
    if not seen.devices:
        return Text(nothing_in(seen))
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column("MB")
    for heading in _HEADINGS:
        grid.add_column(heading, justify="right")
    for device in seen.devices:
        _add_device(grid, device, peaks)
    return Group(grid, *(Text(remark, style="yellow") for device in seen.devices for remark in _remarks(device)))


def _add_device(grid: Table, device: DeviceCounters, peaks: PeakHold) -> None:
    chip = device.chip_unique_id
    name = f"device {device.device}" + (f" ({chip:#x})" if chip else "")
    grid.add_row(Text(name, style="bold"), *_cells(device.total))
    grid.add_row(Text("  peak", style="dim"), *_cells(peaks.of_chip(chip)), style="dim")
    for process in device.processes:
        label = Text(f"  {process.pid} {process.name}" + ("" if process.running else " (gone)"))
        grid.add_row(label, *_cells(process.held), style="" if process.running else "yellow")
        grid.add_row(Text("    peak", style="dim"), *_cells(peaks.of_process(chip, process.pid)), style="dim")


def _cells(held: Counters) -> list[Text]:
    return [Text(f"{amount / MIB:,.3f}" if amount else "-") for amount in astuple(held)]


def _remarks(device: DeviceCounters) -> list[str]:
    remarks = []
    gone = [str(process.pid) for process in device.processes if not process.running]
    if gone and any(astuple(device.abandoned)):
        remarks.append(
            f"device {device.device}: {', '.join(gone)} {'is' if len(gone) == 1 else 'are'} not running here any more; "
            "what it held still counts until the last process detaches"
        )
    if device.torn:
        remarks.append(f"device {device.device}: it changed while it was read; parts may be from different instants")
    return remarks
