# SPDX-License-Identifier: Apache-2.0
"""The examples of the knowledge: messages, each with what must be said about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ttmem.failures.knowledge.tables import load_documents


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A message and what must be said about it."""

    thread: str
    text: str
    failure_class: str
    board: str | None = None
    finds: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    saves_per_bank: Mapping[str, int] = field(default_factory=dict, hash=False)
    live: tuple[Mapping[str, Any], ...] = ()
    """Tensors of a profile, as fields of ``LiveTensor``."""
    hints: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What the text cannot say itself, as in ``Context``."""


EXAMPLES = [
    Example(
        thread=entry["of"],
        failure_class=entry["class"],
        **{name: value for name, value in entry.items() if name not in ("of", "class")},
    )
    for document in load_documents()
    for entry in document.get("example", ())
]
