# SPDX-License-Identifier: Apache-2.0
"""``ttmem live``: Show what running processes hold on the cards, from shared memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from ttmem.commands.options import count_option, seconds_option
from ttmem.commands.output import color_wanted, columns, emit, note
from ttmem.commands.command_line import verb

if TYPE_CHECKING:
    from ttmem.reports.live.document import LiveSample


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
    from ttmem.commands.library.live import watch

    samples = 1 if once else count
    reported: set[str] = set()
    with _screen(as_json=as_json, refreshing=samples != 1) as show, suppress(KeyboardInterrupt):
        for number, seen in enumerate(watch(samples, interval_seconds=interval)):
            show(seen)
            problems = {f"ttmem: {region.path}: {region.problem}" for region in seen.unreadable}
            for text in sorted(problems - reported):
                note(text)
            reported |= problems
            if number == 0 and not seen.devices and not seen.unreadable:
                off = "TT_METAL_SHM_TRACKING_DISABLED=1 switches them off"
                note(f"no process publishes counters in {seen.folder}; {off}")


@contextmanager
def _screen(*, as_json: bool, refreshing: bool) -> Iterator[Callable[[LiveSample], None]]:
    """How a sample is shown: a line of JSON, a table that renews itself, or one table after the other in a pipe."""
    if as_json:
        import json

        yield lambda seen: emit(json.dumps(seen.to_json()), None)
        return
    from ttmem.reports.live import terminal

    color = color_wanted(sys.stdout)
    if not (refreshing and sys.stdout.isatty()):
        yield lambda seen: emit(terminal.render(seen, width=columns(), color=color), None)
        return
    from rich.console import Console
    from rich.live import Live

    from ttmem.reports.kit.console import gated

    console = Console(no_color=not color, highlight=False)
    with Live(console=console, auto_refresh=False) as screen:
        yield lambda seen: screen.update(gated(terminal.table(seen)), refresh=True)
