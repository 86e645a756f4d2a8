# SPDX-License-Identifier: Apache-2.0
"""``ttmem replay``: Play an allocation script on the twin of the allocator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands._opened_board import describe_opening, open_chosen, opening_document, text_lines
from ttmem.commands._options import opening_options, output_option
from ttmem.commands._output import emit, json_text, warn
from ttmem.commands._runner import verb

if TYPE_CHECKING:
    from ttmem.allocator import MemoryView
    from ttmem.allocator.replay import StepResult

_EXAMPLES = """
ttmem replay steps.jsonl --board n150
ttmem replay steps.jsonl --board p150 --l1-small 32768 --json
ttmem replay - --strict < steps.jsonl
"""
_SHOWN_FAILURES = 10


@verb("replay", examples=_EXAMPLES)
@click.argument("steps", metavar="STEPS.jsonl")
@click.option("--board", help="The board (default n150).")
@opening_options
@click.option("--strict", is_flag=True, help="Exit 1 when a step fails.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: every step, then the memories.")
@output_option
def command(steps: str, board: str | None, strict: bool, as_json: bool, output: Path | None, **opening: Any) -> int:
    """Where every buffer of an allocation script would lie, and which step would run out of memory.

    One step per line: {"alloc": "a", "shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "L1"},
    with "shard": {"kind": "height", "shape": [64, 512], "grid": [8, 8], "orientation": "row"} if sharded, or
    {"free": "a"}. Steps that fail do not end the replay; freeing what was never allocated does.
    """
    from ttmem.allocator import Device
    from ttmem.allocator.replay import Replay, read_steps

    memory_map = open_chosen(board, **opening)
    for text in memory_map.warnings:
        warn(text)
    runner = Replay(Device(memory_map))
    name = "standard input" if steps == "-" else steps
    results = [runner.step(step, where) for where, step in read_steps(text_lines(steps), name)]
    views = runner.device.views()
    if as_json:
        document = {
            **opening_document(memory_map),
            "steps": [result.to_json() for result in results],
            "memories": {view.memory.name: _memory(view) for view in views},
        }
        emit(json_text(document), output)
    else:
        emit(_text(results, views, describe_opening(memory_map)), output)
    return 1 if strict and any(not result.ok for result in results) else 0


def _memory(view: MemoryView) -> dict[str, int]:
    return {
        "banks": view.banks,
        "bytes_per_bank": view.total_bytes_per_bank,
        "allocated": view.allocated_bytes_per_bank,
        "free": view.free_bytes_per_bank,
        "largest_free": view.largest_free_bytes_per_bank,
    }


def _text(results: list[StepResult], views: tuple[MemoryView, ...], opened: str) -> str:
    failed = [(number, result) for number, result in enumerate(results, 1) if result.failure is not None]
    lines = [f"{len(results):,} steps on {opened}", f"{len(failed):,} failed" if failed else "all succeeded"]
    for number, result in failed[:_SHOWN_FAILURES]:
        assert result.failure is not None
        lines.append(f"  step {number}: {result.failure.message}")
    if len(failed) > _SHOWN_FAILURES:
        lines.append(f"  and {len(failed) - _SHOWN_FAILURES:,} more (--json lists all)")
    lines += ["", f"{'per bank, B':<11} {'allocated':>15} {'free':>15} {'largest free':>15}"]
    for view in views:
        if view.total_bytes_per_bank:
            numbers = (view.allocated_bytes_per_bank, view.free_bytes_per_bank, view.largest_free_bytes_per_bank)
            lines.append(f"{view.memory.name:<11} " + " ".join(f"{number:>15,}" for number in numbers))
    return "\n".join(lines)
