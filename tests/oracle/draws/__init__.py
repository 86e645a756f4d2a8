# SPDX-License-Identifier: Apache-2.0
"""Random calls of every operation: one module per family, each with its ``DRAWS``.

A key of ``DRAWS`` is the name of an operation, or of a family whose operations are all drawn alike.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from oracle.draws.choose import Choose, Draw
from ttmem.twin.operations.record import OperationRecord, Step


@cache
def load_draws() -> dict[str, Draw]:
    """Collect the draws of all modules in this folder, by operation or family."""
    found: dict[str, Draw] = {}
    for module in iter_modules(__path__):
        draws: dict[str, Draw] = getattr(import_module(f"{__name__}.{module.name}"), "DRAWS", {})
        assert not found.keys() & draws.keys(), f"{module.name}: drawn twice: {found.keys() & draws.keys()}"
        found |= draws
    return found


def find_draw(record: OperationRecord) -> Draw | None:
    """Return the draw of an operation, else that of its family."""
    draws = load_draws()
    return draws.get(record.name) or draws.get(record.family)


def draw_call(record: OperationRecord, choose: Choose) -> list[Step]:
    """Make a random call of an operation: allocations, then the call."""
    draw = find_draw(record)
    assert draw is not None, f"ttnn.{record.name}: no draw in tests/oracle/draws"
    return draw(record, choose)
