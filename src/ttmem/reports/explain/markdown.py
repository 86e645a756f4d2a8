# SPDX-License-Identifier: Apache-2.0
"""A diagnosis as compact Markdown for an LLM agent: everything, in a fixed order, at most some 8,000 tokens."""

from collections.abc import Sequence
from typing import Any

from ttmem.failures import Diagnosis
from ttmem.reports.explain import sentences
from ttmem.reports.kit import tables, templates
from ttmem.reports.kit.units import one_line, short

_MOST_BYTES = 24_000
_MESSAGE_WIDTH = 600
_MOST_LIVE = 10


def render(diagnoses: Sequence[Diagnosis]) -> str:
    """The report; failures beyond what fits are counted, not shown."""
    parts: list[str] = []
    size = 0
    for number, diagnosis in enumerate(diagnoses):
        message = short(diagnosis.failure.message, _MESSAGE_WIDTH)
        part = filled("explanation", diagnosis, message=message, most_live=_MOST_LIVE)
        size += len(part.encode("utf-8", "replace"))
        if parts and size > _MOST_BYTES:
            parts.append(f"{len(diagnoses) - number} more failures (`--json` lists all)")
            break
        parts.append(part)
    return "\n\n".join(parts) + "\n"


def filled(template: str, diagnosis: Diagnosis, **more: Any) -> str:
    """A Markdown template about one diagnosis, with the words that all reports share."""
    return templates.render(
        f"{template}.md.j2",
        diagnosis=diagnosis,
        say=sentences,
        markdown=tables.markdown,
        one_line=one_line,
        in_brackets=lambda text: f" ({text})" if text else "",
        **more,
    ).rstrip()
