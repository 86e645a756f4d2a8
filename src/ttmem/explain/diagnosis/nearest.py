# SPDX-License-Identifier: Apache-2.0
"""The known sentence that comes nearest to a text that none explains, so that a reader can judge for herself."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ttmem.explain.knowledge.loading import Template, entries
from ttmem.explain.text._template import Part, parse

_LEAST_SHARE = 0.34
"""Of the template's words: below this the two have nothing to do with each other."""
_MOST_TEXT = 4000


@dataclass(frozen=True, slots=True)
class Nearest:
    """A template, as it would be printed, and how much of it the text has."""

    template: str
    text: str
    failure_class: str
    share: float
    """Of the template's words that stand in the text, 0 to 1."""


def nearest_template(text: str) -> Nearest | None:
    """The template that shares most words with a text; None when none shares enough to be worth showing."""
    words = _words(text[:_MOST_TEXT])
    best: Nearest | None = None
    for template in entries(Template):
        sentence = _readable(parse(template.text))
        wanted = _words(sentence)
        share = len(wanted & words) / len(wanted) if wanted else 0.0
        # Short templates are met by chance: a word of two says nothing.
        if len(wanted & words) >= 2 and share >= _LEAST_SHARE and (best is None or share > best.share):
            best = Nearest(template.id, sentence, template.failure_class, round(share, 2))
    return best


def _readable(parts: tuple[Part, ...]) -> str:
    out = []
    for part in parts:
        if part.slot is None:
            out.append(part.text or _readable(part.optional))
        else:
            out.append(part.slot.choices[0] if part.slot.choices else "...")
    return "".join(out)


def _words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Za-z][A-Za-z_0-9]{3,}", text)}
