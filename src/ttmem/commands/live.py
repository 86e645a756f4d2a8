# SPDX-License-Identifier: Apache-2.0
"""``ttmem live``: Show what running processes hold on the cards, from shared memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count as count_from
from typing import TYPE_CHECKING

import click

from ttmem.commands.command_line import verb
from ttmem.commands.options import count_option, seconds_option
from ttmem.commands.output import emit, looks, note

if TYPE_CHECKING:
    from ttmem.readers.live_counters import PeakHold, Sample
    from ttmem.reports.live import LiveSample


def watch_counters(samples: int | None = None, *, interval_seconds: float = 1.0) -> Iterator[LiveSample]:
    """Yield samples (None: without end) of every chip that a process on this machine has opened."""
    from ttmem.readers.live_counters import PeakHold, sample

    peaks = PeakHold()
    due = time.monotonic()
    for taken in count_from(1):
        seen = sample()
        peaks.add(seen)
        yield _build_document(seen, peaks)
        if taken == samples:
            return
        due = max(due + interval_seconds, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def _build_document(seen: Sample, peaks: PeakHold) -> LiveSample:
    from ttmem.reports.live import SCOPE, LiveDevice, LiveProcess, LiveSample

    devices = [
        LiveDevice(
            device=device.device,
            chip_unique_id=str(device.chip_unique_id),
            version=device.version,
            attached_processes=device.attached_processes,
            updated_ns=device.updated_ns,
            torn=device.torn,
            total=device.total,
            peak=peaks.find_chip_peak(device.chip_unique_id),
            abandoned=device.abandoned,
            chips=device.chips,
            processes=[
                LiveProcess(
                    pid=process.pid,
                    name=process.name,
                    running=process.running,
                    held=process.held,
                    updated_ns=process.updated_ns,
                    peak=peaks.find_process_peak(device.chip_unique_id, process.pid),
                    mock=process.mock,
                )
                for process in device.processes
            ],
        )
        for device in seen.devices
    ]
    return LiveSample(
        taken_ns=seen.taken_ns, scope=SCOPE, devices=devices, unreadable=seen.unreadable, folder=str(seen.folder)
    )


@verb("""
ttmem live
ttmem live --once
ttmem live --json --interval 0.5 > counters.jsonl
""")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per sample and line.")
@click.option("--once", is_flag=True, help="One sample, then end.")
@seconds_option("--interval", 0.02, 1.0, "Time between samples.")
@count_option("--count", help="End after N samples.")
def command(as_json: bool, once: bool, interval: float, count: int | None) -> None:
    """Show what every running process holds in DRAM and L1, per chip, with the highest values since the start.

    tt-metal publishes these counters in /dev/shm (TTMEM_SHM_DIR names another folder); neither ttnn nor access to the
    card is needed. They are bytes as requested, summed over banks and cores: bank padding and dataflow buffers are
    not in them. Ctrl-C ends it.
    """
    samples = 1 if once else count
    reported: set[str] = set()
    with _open_screen(as_json=as_json, refreshing=samples != 1) as show, suppress(KeyboardInterrupt):
        for number, seen in enumerate(watch_counters(samples, interval_seconds=interval)):
            show(seen)
            problems = {f"ttmem: {region.path}: {region.problem}" for region in seen.unreadable}
            for text in sorted(problems - reported):
                note(text)
            reported |= problems
            if number == 0 and not seen.devices and not seen.unreadable:
                off = "TT_METAL_SHM_TRACKING_DISABLED=1 switches them off"
                note(f"no process publishes counters in {seen.folder}; {off}")


@contextmanager
def _open_screen(*, as_json: bool, refreshing: bool) -> Iterator[Callable[[LiveSample], None]]:
    """Yield a function that shows a sample: a line of JSON, a table that refreshes itself, or one table per sample."""
    if as_json:
        import json

        yield lambda seen: emit(json.dumps(seen.to_json()), None)
        return
    from ttmem.reports import live as report

    drawn = looks()
    if not (refreshing and sys.stdout.isatty()):
        yield lambda seen: emit(report.render_terminal(seen, **drawn), None)
        return
    from rich.console import Console
    from rich.live import Live

    from ttmem.reports.kit.console import escape_renderable

    console = Console(no_color=not drawn["color"], highlight=False)
    with Live(console=console, auto_refresh=False) as screen:
        yield lambda seen: screen.update(escape_renderable(report.build_table(seen)), refresh=True)
