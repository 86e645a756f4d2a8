# SPDX-License-Identifier: Apache-2.0
"""A diagnosis as compact Markdown for an LLM agent: everything, in a fixed order, at most some 8,000 tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ttmem.explain import Diagnosis
from ttmem.reports.explain.sentences import (
    board_text,
    figures_table,
    live_lines,
    place_text,
    saving_text,
    threads_text,
)
from ttmem.reports.kit.tables import markdown
from ttmem.reports.kit.units import one_line, short

_MOST_BYTES = 24_000
_MESSAGE_WIDTH = 600
_MOST_LIVE = 10


def render(diagnoses: Sequence[Diagnosis]) -> str:
    """The report; failures beyond what fits are counted, not shown."""
    parts: list[str] = []
    size = 0
    for number, diagnosis in enumerate(diagnoses):
        part = "\n".join(_section(diagnosis))
        size += len(part.encode("utf-8", "replace"))
        if parts and size > _MOST_BYTES:
            parts.append(f"{len(diagnoses) - number} more failures (`--json` lists all)")
            break
        parts.append(part)
    return "\n\n".join(parts) + "\n"


def _section(diagnosis: Diagnosis) -> Iterator[str]:
    failure = diagnosis.failure
    yield f"# Memory failure: {place_text(diagnosis)}"
    yield ""
    yield f"> {one_line(diagnosis.headline)}"
    yield ""
    yield f"- Confidence in the class: {diagnosis.confidence}"
    if failure.message:
        yield f"- Message: `{short(failure.message, _MESSAGE_WIDTH).replace('`', chr(39))}`"
    if board := board_text(diagnosis.board):
        yield f"- Board: {board}"
    if diagnosis.tensor is not None:
        yield f"- Tensor ({diagnosis.tensor.confidence}): {one_line(diagnosis.tensor.text)}"
    context = diagnosis.context
    for label, value in (("Operation", context.operation), ("Test", context.test)):
        if value:
            yield f"- {label}: {one_line(value)}"
    for name, number in context.settings.items():
        yield f"- Setting: {name}={number}"
    if diagnosis.arithmetic:
        yield from ("", "## Arithmetic", "", "Bytes; allocator figures are per bank.", "")
        yield from markdown(figures_table(diagnosis))
    if diagnosis.findings:
        yield from ("", "## Findings", "")
        for finding in diagnosis.findings:
            yield f"- {one_line(finding.text)}" + _evidence(finding.evidence)
    if diagnosis.live:
        yield from ("", "## Alive when it failed", "")
        yield from (f"- {line}" for line in live_lines(diagnosis, _MOST_LIVE))
    if diagnosis.remedies:
        yield from ("", "## Remedies", "")
        for number, remedy in enumerate(diagnosis.remedies, 1):
            saving = saving_text(remedy)
            caution = f" Careful: {remedy.caution}" if remedy.caution else ""
            words = f"{one_line(remedy.do)} {one_line(remedy.why)}" + (f" [{saving}]" if saving else "")
            yield f"{number}. {words}{caution}{_evidence(remedy.evidence)}"
    if diagnosis.nearest is not None:
        yield from ("", f"Nearest known message ({diagnosis.nearest.template}): {diagnosis.nearest.text}")


def _evidence(threads: Iterable[str]) -> str:
    text = threads_text(threads)
    return f" ({text})" if text else ""
