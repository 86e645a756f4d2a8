# SPDX-License-Identifier: Apache-2.0
"""``ttmem replay``: Play an allocation script on the model of the allocator (the twin)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands.command_line import verb
from ttmem.commands.options import opening_options, output_option
from ttmem.commands.output import emit, json_text, looks, warn
from ttmem.commands.requested_board import open_requested_board, read_lines

if TYPE_CHECKING:
    from ttmem.reports.replay import ReplayedScript


def replay(
    steps: str | Path | Iterable[Mapping[str, Any]], *, board: str | None = None, **opening: Any
) -> ReplayedScript:
    """Return the address of every buffer of an allocation script, and which step would run out of memory.

    ``steps`` is a file with one JSON object per line (``-``: standard input) or the objects themselves:
    ``{"alloc": "a", "shape": [1, 1, 64, 64], "memory": "L1"}``, ``{"free": "a"}``. ``opening`` are the arguments of
    ``open_requested_board``: ``release``, ``like``, ``l1_small``, .... A step that fails is an answer; freeing what was
    never allocated raises ``TtmemError``.
    """
    from ttmem.reports.boards import describe_opening as opening_fields
    from ttmem.reports.replay import MemoryUse, ReplayedScript, build_step
    from ttmem.twin.device import Device
    from ttmem.twin.replay import ScriptRunner, read_steps

    memory_map = open_requested_board(board, **opening)
    runner = ScriptRunner(Device(memory_map))
    if isinstance(steps, (str, Path)):
        placed = read_steps(read_lines(steps, refuse_long=True), "standard input" if steps == "-" else str(steps))
    else:
        placed = ((f"step {number}", given) for number, given in enumerate(steps, 1))
    answers = [build_step(runner.step(given, where)) for where, given in placed]
    return ReplayedScript(
        **opening_fields(memory_map),
        steps=answers,
        memories={
            view.memory.name: MemoryUse(
                banks=view.banks,
                total_bytes_per_bank=view.total_bytes_per_bank,
                allocated_bytes_per_bank=view.allocated_bytes_per_bank,
                free_bytes_per_bank=view.free_bytes_per_bank,
                largest_free_bytes_per_bank=view.largest_free_bytes_per_bank,
            )
            for view in runner.device.views()
        },
        warnings=memory_map.warnings,
    )


@verb("""
ttmem replay steps.jsonl --board n150
ttmem replay steps.jsonl --board p150 --l1-small 32768 --json
ttmem replay - --strict < steps.jsonl
""")
@click.argument("steps", metavar="STEPS.jsonl")
@click.option("--board", help="The board (default n150).")
@opening_options
@click.option("--strict", is_flag=True, help="Exit 1 when a step fails.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: every step, then the memories.")
@output_option
def command(steps: str, board: str | None, strict: bool, as_json: bool, output: Path | None, **opening: Any) -> int:
    """Show the address of every buffer of an allocation script, and which step would run out of memory.

    One step per line: {"alloc": "a", "shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "L1"},
    with "shard": {"kind": "height", "shape": [64, 512], "grid": [8, 8], "orientation": "row"} if sharded, or
    {"free": "a"}. Steps that fail do not end the replay; freeing what was never allocated does.
    """
    from ttmem.reports import replay as replay_report

    script = replay(steps, board=board, **opening)
    for text in script.warnings:
        warn(text)
    emit(json_text(script) if as_json else replay_report.render_terminal(script, **looks(output)), output)
    return 1 if strict and script.failures else 0
