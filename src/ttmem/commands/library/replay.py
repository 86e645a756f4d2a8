# SPDX-License-Identifier: Apache-2.0
"""``ttmem.replay``: an allocation script on a board that need not be there."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ttmem.commands.requested_board import opened_board, text_lines
from ttmem.reports.boards.document import opening as opening_fields
from ttmem.reports.replay.document import ReplayedScript, step
from ttmem.twin.device import Device
from ttmem.twin.replay import ScriptRunner, read_steps


def replay(
    steps: str | Path | Iterable[Mapping[str, Any]], *, board: str | None = None, **opening: Any
) -> ReplayedScript:
    """Where every buffer of an allocation script would lie, and which step would run out of memory.

    ``steps`` is a file with one JSON object per line (``-``: standard input) or the objects themselves:
    ``{"alloc": "a", "shape": [1, 1, 64, 64], "memory": "L1"}``, ``{"free": "a"}``. ``opening`` are the arguments of
    ``opened_board``: ``release``, ``like``, ``l1_small``, .... A step that fails is an answer; freeing what was never
    allocated raises ``TtmemError``.
    """
    memory_map = opened_board(board, **opening)
    runner = ScriptRunner(Device(memory_map))
    if isinstance(steps, (str, Path)):
        placed = read_steps(text_lines(steps), "standard input" if steps == "-" else str(steps))
    else:
        placed = ((f"step {number}", given) for number, given in enumerate(steps, 1))
    answers = [step(runner.step(given, where)) for where, given in placed]
    return ReplayedScript.of(
        **opening_fields(memory_map),
        steps=answers,
        memories={view.memory.name: view for view in runner.device.views()},
        warnings=memory_map.warnings,
    )
