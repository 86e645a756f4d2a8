# SPDX-License-Identifier: Apache-2.0
"""What running processes hold, for a person: one table, a row per chip and below it a row per process."""

from dataclasses import astuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ttmem.readers.live_counters import Counters
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.units import mib
from ttmem.reports.live.document import Device, LiveSample, empty_text

_HEADS = ("DRAM", "L1", "L1_SMALL", "TRACE", "circular")


def render(seen: LiveSample, *, width: int = 100, color: bool = False) -> str:
    """The table for a pipe or a single look."""
    if not seen.devices:
        return nothing_in(seen)
    report = TextReport(width, color=color)
    report.print(table(seen))
    return report.text()


def nothing_in(seen: LiveSample) -> str:
    """One line, never folded: a folder is copied from it."""
    return f"no counters in {seen.folder}"


def table(seen: LiveSample) -> RenderableType:
    """MiB of a whole chip; the peaks are those since watching began."""
    if not seen.devices:
        return Text(nothing_in(seen))
    shown = [device for device in seen.devices if device.holds_anything]
    empty = Text(f"{empty_text(seen.devices)}: --json lists all", style="dim")
    if not shown:
        return empty
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column("MiB")
    for head in _HEADS:
        grid.add_column(head, justify="right")
    for device in shown:
        chip = f" ({int(device.chip_unique_id):#x})" if device.chip_unique_id != "0" else ""
        mock = " mock" if device.is_mock else ""
        grid.add_row(Text(f"device {device.device}{chip}{mock}", style="bold"), *_cells(device.total))
        grid.add_row(Text("  peak", style="dim"), *_cells(device.peak), style="dim")
        for process in device.processes:
            label = Text(f"  {process.pid} {process.name}" + ("" if process.running else " (gone)"))
            grid.add_row(label, *_cells(process.held), style="" if process.running else "yellow")
            grid.add_row(Text("    peak", style="dim"), *_cells(process.peak), style="dim")
    remarks = [Text(remark, style="yellow") for device in shown for remark in _remarks(device)]
    return Group(grid, *remarks, *([empty] if len(shown) < len(seen.devices) else []))


def _cells(held: Counters) -> list[Text]:
    return [Text(mib(amount) if amount else "-") for amount in astuple(held)]


def _remarks(device: Device) -> list[str]:
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
