# SPDX-License-Identifier: Apache-2.0
"""How much an answer may hold, in one place, so that what is promised and what is enforced cannot differ."""

import json
from typing import Any

DEFAULT_ROWS = 10
MOST_ROWS = 100
MOST_CHARACTERS = 75_000
"""About 25,000 tokens: JSON of figures and names has three characters per token."""
_LONGEST_TEXT = 2_000
_MOST_KEYS = 40
"""A mapping with more entries is a table by name (operations by name), and cut like one."""


def rows_allowed(rows: int) -> int:
    """What was asked for, within the cap."""
    return max(1, min(rows, MOST_ROWS))


def bounded(document: dict[str, Any], rows: int) -> dict[str, Any]:
    """The document with long tables cut to ``rows``; ``not_listed`` counts what each one lost.

    When that is still too long, rows are halved until it fits: fewer rows are an answer, a cut JSON text is none.
    """
    rows = rows_allowed(rows)
    while True:
        lost: dict[str, int] = {}
        answer: dict[str, Any] = _cut(document, rows, "", lost)
        if lost:
            answer["not_listed"] = lost
        if len(json.dumps(answer)) <= MOST_CHARACTERS or rows == 1:
            return answer
        rows = max(1, rows // 2)


def bounded_text(text: str) -> str:
    """A text within the same limit."""
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}\n\n(cut: {len(text) - MOST_CHARACTERS:,} more characters)"


def _cut(value: Any, rows: int, path: str, lost: dict[str, int]) -> Any:
    if isinstance(value, dict):
        kept = value
        if len(value) > _MOST_KEYS and len(value) > rows:
            kept = dict(list(value.items())[:rows])
            lost[path or "."] = len(value) - rows
        return {key: _cut(item, rows, f"{path}.{key}" if path else str(key), lost) for key, item in kept.items()}
    if isinstance(value, list):
        if all(not isinstance(item, dict | list) for item in value):
            limit = max(rows, MOST_ROWS) if all(isinstance(item, int | float) for item in value) else rows
        else:
            limit = rows
        if len(value) > limit:
            lost[path] = lost.get(path, 0) + len(value) - limit
        return [_cut(item, rows, path, lost) for item in value[:limit]]
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return f"{value[:_LONGEST_TEXT]}… ({len(value) - _LONGEST_TEXT:,} more characters)"
    return value
