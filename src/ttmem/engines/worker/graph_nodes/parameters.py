# SPDX-License-Identifier: Apache-2.0
"""Parameters of a node: releases write numbers and truths as themselves, as text, or not at all."""

from collections.abc import Mapping
from typing import Any

Params = Mapping[str, Any]

LARGEST_NUMBER = 1 << 48
"""More bytes than any machine has: a larger number is damage, and sums of such would not fit a column."""

HOST = "HOST"
BUFFER_TYPES = {0: "DRAM", 1: "L1", 2: HOST, 3: "L1_SMALL", 4: "TRACE"}
"""The library's numbers of its buffer types."""


def text(params: Params, key: str) -> str:
    """A parameter as text; empty when it is not there."""
    value = params.get(key)
    return "" if value is None else str(value)


def number(params: Params, key: str) -> int:
    """A parameter as a number; 0 for what is none, or damaged."""
    return whole_number(params.get(key))


def whole_number(value: object) -> int:
    """Captures and databases keep numbers as text, text as numbers, and either as nothing; 0 for what is none."""
    try:
        found = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return 0
    return found if -LARGEST_NUMBER < found < LARGEST_NUMBER else 0


def flag(params: Params, key: str) -> bool:
    """A parameter as yes or no: ``1``, ``"1"``, ``true``, ``"true"`` and ``"True"`` are all written for yes."""
    return text(params, key).strip().lower() in ("1", "true")


def memory_named(value: object) -> str:
    """``DRAM`` ... ``TRACE`` or ``HOST`` of a buffer type, which is a number or (newer) its name; empty if unknown."""
    if isinstance(value, str):
        name = value.rpartition(":")[2].rpartition(".")[2].upper()
        if name == "SYSTEM_MEMORY":
            return HOST
        if name != HOST and name in BUFFER_TYPES.values():
            return name
        if not name.isdecimal() or len(name) > 2:
            return ""
        value = int(name)
    return BUFFER_TYPES.get(value, "") if isinstance(value, int) else ""


def memory_of(params: Params) -> str:
    """The memory of a buffer's node, whichever key the release writes it under."""
    return memory_named(params.get("buffer_type", params.get("type")))
