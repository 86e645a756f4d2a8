# SPDX-License-Identifier: Apache-2.0
"""``ttmem live``: What running processes hold on the cards, from shared memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from ttmem.commands._output import color_wanted, columns, emit, note
from ttmem.commands._runner import verb

if TYPE_CHECKING:
    from ttmem.live import PeakHold, Sample

_EXAMPLES = """
ttmem live
ttmem live --once
ttmem live --json --interval 0.5 > counters.jsonl
"""


@verb("live", examples=_EXAMPLES)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per sample and line.")
@click.option("--once", is_flag=True, help="One sample, then end.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.02),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between samples.",
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after N samples.")
def command(as_json: bool, once: bool, interval: float, count: int | None) -> None:
    """What every running process holds in DRAM and L1, per chip, with the highest values since the start.

    tt-metal publishes these counters in /dev/shm (TTMEM_SHM_DIR names another folder); neither ttnn nor access to the
    card is needed. They are bytes as requested, summed over banks and cores: bank padding and dataflow buffers are
    not in them. Ctrl-C ends it.
    """
    samples = 1 if once else count
    with _screen(as_json=as_json, refreshing=samples != 1) as show, suppress(KeyboardInterrupt):
        _watch(show, samples=samples, interval_seconds=interval)


def _watch(show: Callable[[Sample, PeakHold], None], *, samples: int | None, interval_seconds: float) -> None:
    from ttmem import live

    peaks = live.PeakHold()
    due = time.monotonic()
    taken = 0
    told: set[str] = set()
    while True:
        seen = live.sample()
        peaks.add(seen)
        show(seen, peaks)
        for region in seen.unreadable:
            text = f"{region.path}: {region.problem}"
            if text not in told:
                told.add(text)
                note(f"ttmem: {text}")
        taken += 1
        if taken == 1 and not seen.devices and not seen.unreadable:
            note(f"no process publishes counters in {seen.folder}; TT_METAL_SHM_TRACKING_DISABLED=1 switches them off")
        if samples is not None and taken >= samples:
            return
        due = max(due + interval_seconds, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


@contextmanager
def _screen(*, as_json: bool, refreshing: bool) -> Iterator[Callable[[Sample, PeakHold], None]]:
    """How a sample is shown: a line of JSON, a table that renews itself, or one table after the other in a pipe."""
    if as_json:
        import json

        from ttmem.live.document import document

        yield lambda seen, peaks: emit(json.dumps(document(seen, peaks)), None)
        return
    from ttmem.commands import _live_table

    color = color_wanted(sys.stdout)
    if not (refreshing and sys.stdout.isatty()):
        yield lambda seen, peaks: emit(_live_table.text(seen, peaks, width=columns(), color=color), None)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(no_color=not color, highlight=False)
    with Live(console=console, auto_refresh=False) as screen:
        yield lambda seen, peaks: screen.update(_live_table.table(seen, peaks), refresh=True)
