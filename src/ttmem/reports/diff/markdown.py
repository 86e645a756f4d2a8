# SPDX-License-Identifier: Apache-2.0
"""A diff as compact Markdown for an LLM agent, at most some 8,000 tokens."""

from collections.abc import Sequence

from ttmem.analysis.diff import MemoryDiff
from ttmem.analysis.tensor_diff import TensorChange
from ttmem.reports.diff import terminal
from ttmem.reports.kit import tables as kit
from ttmem.reports.kit.units import one_line, short

_MOST_BYTES = 24_000
_DETAILS = ((20, 90), (10, 60), (5, 24), (2, 12))
"""Rows, and the longest name, until the text is short enough."""


def render(diff: MemoryDiff, *, regression: bool = False) -> str:
    """The peaks, what grew and shrank with the first suspect first, and what cannot be compared."""
    text = ""
    for rows, width in _DETAILS:
        text = _text(diff, rows, width, regression=regression)
        if len(text.encode("utf-8", "replace")) <= _MOST_BYTES:
            break
    return text


def _text(diff: MemoryDiff, rows: int, width: int, *, regression: bool) -> str:
    before, after = (short(one_line(name), width) for name in (diff.before_name, diff.after_name))
    lines = [f"# Memory Difference: {before} -> {after}", ""]
    lines += kit.markdown(terminal.memories(diff), longest=width) or ["No memory is known in either."]
    if regression:
        lines += ["", "**Regression**: a peak grew by more than the limit."]
    notes = [*diff.remarks, *terminal.notes(diff)]
    lines += [line for text in notes for line in ("", one_line(text))]
    for title, changes in (("Grew", diff.grew), ("Shrank", diff.shrank)):
        lines += _tensors(title, changes, rows, width)
    if diff.operation_counts:
        lines += ["", f"Operation counts: {terminal.counts(diff)}"]
    if terminal.is_the_same(diff):
        lines += ["", "No difference in memory."]
    return "\n".join(lines) + "\n"


def _tensors(title: str, changes: Sequence[TensorChange], rows: int, width: int) -> list[str]:
    if not changes:
        return []
    table = terminal.tensors(title, changes, 2 * width, rows=rows)
    return ["", f"## {title}", "", *kit.markdown(table, longest=width)]
