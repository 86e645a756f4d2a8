# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem live``: the memory that running processes hold on the cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING

import msgspec

from ttmem.base.formatting import format_mib_number, pluralize
from ttmem.readers.live_counters import ChipCounters, Counters, UnreadableRegion
from ttmem.reports.kit import pages
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import Document

if TYPE_CHECKING:
    from rich.console import RenderableType

SCOPE = "bytes as requested, all banks and cores of one chip; without bank padding and dataflow buffers"


class LiveProcess(Document, frozen=True):
    """The memory that one process holds on the chip."""

    pid: int
    name: str
    running: bool
    """A killed process leaves its counters behind."""
    held: Counters
    updated_ns: int
    peak: Counters
    """The highest values since watching began."""
    mock: bool
    """It runs on a mock cluster and holds no memory of a card."""


class LiveDevice(Document, frozen=True):
    """A chip that a process has opened."""

    device: int
    """Logical number in the process that attached last."""
    chip_unique_id: str
    """A number of 64 bits, as text: a number of JSON would lose digits in a browser."""
    version: int = msgspec.field(name="layout_version")
    attached_processes: int
    updated_ns: int
    torn: bool
    """It changed while it was read: the parts may be from different instants."""
    total: Counters
    peak: Counters
    abandoned: Counters
    """The memory held by processes that have ended."""
    chips: Sequence[ChipCounters]
    processes: Sequence[LiveProcess]

    @property
    def is_mock(self) -> bool:
        """True when all processes on it run on a mock cluster."""
        return bool(self.processes) and all(process.mock for process in self.processes)

    @property
    def holds_anything(self) -> bool:
        """True when it holds memory now, or held some since watching began."""
        return any((*astuple(self.total), *astuple(self.peak), *(any(astuple(one.held)) for one in self.processes)))


def describe_empty_devices(devices: Sequence[LiveDevice]) -> str:
    """``12 devices hold nothing``; empty where each holds something."""
    empty = sum(not device.holds_anything for device in devices)
    return f"{pluralize(empty, 'device')} {'holds' if empty == 1 else 'hold'} nothing" if empty else ""


class LiveSample(Document, frozen=True, tag_field="schema", tag="ttmem.live/1"):
    """The chips at one moment, with the highest values since watching began."""

    taken_ns: int = msgspec.field(name="time_ns")
    scope: str
    devices: Sequence[LiveDevice]
    unreadable: Sequence[UnreadableRegion]
    folder: str
    """The folder that was searched for regions."""


_HEADS = ("DRAM", "L1", "L1_SMALL", "TRACE", "circular")


def render_terminal(seen: LiveSample, *, width: int = 100, color: bool = False) -> str:
    """Render the table for a pipe or a single sample."""
    if not seen.devices:
        return describe_missing_counters(seen)
    report = TextReport(width, color=color)
    report.print(build_table(seen))
    return report.render()


def describe_missing_counters(seen: LiveSample) -> str:
    """Return one line, never folded: a folder is copied from it."""
    return f"no counters in {seen.folder}"


def build_table(seen: LiveSample) -> RenderableType:
    """Build the table in MiB of a whole chip; the peaks are those since watching began."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if not seen.devices:
        return Text(describe_missing_counters(seen))
    shown = [device for device in seen.devices if device.holds_anything]
    empty = Text(f"{describe_empty_devices(seen.devices)}: --json lists all", style="dim")
    if not shown:
        return empty
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column("MiB")
    for head in _HEADS:
        grid.add_column(head, justify="right")
    for device in shown:
        chip = f" ({int(device.chip_unique_id):#x})" if device.chip_unique_id != "0" else ""
        mock = " mock" if device.is_mock else ""
        grid.add_row(Text(f"device {device.device}{chip}{mock}", style="bold"), *_format_counters(device.total))
        grid.add_row(Text("  peak", style="dim"), *_format_counters(device.peak), style="dim")
        for process in device.processes:
            label = Text(f"  {process.pid} {process.name}" + ("" if process.running else " (gone)"))
            grid.add_row(label, *_format_counters(process.held), style="" if process.running else "yellow")
            grid.add_row(Text("    peak", style="dim"), *_format_counters(process.peak), style="dim")
    remarks = [Text(remark, style="yellow") for device in shown for remark in _list_remarks(device)]
    return Group(grid, *remarks, *([empty] if len(shown) < len(seen.devices) else []))


def _format_counters(held: Counters) -> list[str]:
    return [format_mib_number(amount) if amount else "-" for amount in astuple(held)]


def _list_remarks(device: LiveDevice) -> list[str]:
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


def render_processes_page() -> str:
    """Render the page of running processes."""
    return _render_live_page("Running processes", f"{SCOPE[:1].upper()}{SCOPE[1:]}.", "api/live")


def render_log_page(name: str) -> str:
    """Render the page of a log that is being written."""
    return _render_live_page(f"Following {name}", "Memory over operations, as the log grows.", "api/follow")


def _render_live_page(title: str, subtitle: str, api: str) -> str:
    data = {"part": "live", "title": title, "subtitle": subtitle, "api": api}
    return pages.render_data_page("live", title, data, served=True)
