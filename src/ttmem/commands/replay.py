# SPDX-License-Identifier: Apache-2.0
"""``ttmem replay``: Play an allocation script on the model of the allocator (the twin)."""

from pathlib import Path
from typing import Any

import click

from ttmem.commands.options import opening_options, output_option
from ttmem.commands.output import emit, json_text, looks, warn
from ttmem.commands.command_line import verb


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
    from ttmem.commands.library.replay import replay
    from ttmem.reports.replay import terminal

    script = replay(steps, board=board, **opening)
    for text in script.warnings:
        warn(text)
    emit(json_text(script) if as_json else terminal.render(script, **looks(output)), output)
    return 1 if strict and script.failures else 0
