# SPDX-License-Identifier: Apache-2.0
"""An edit that was applied, and how far what is said of it can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ttmem.tuning.chunking import Cut
from ttmem.tuning.edited_run import Change, Draft
from ttmem.tuning.edits import CHUNK, FREE, Edit
from ttmem.tuning.groups import Group

EXACT = "exact"
"""To the byte."""
BOUNDED = "bounded"
"""Not more than what is said."""
UNKNOWN = "unknown"
"""Nothing is promised: what is said is a guess."""


@dataclass(frozen=True, slots=True)
class Applied:
    """One edit, and how certain its effect is."""

    edit: Edit
    change: Change
    groups: tuple[Group, ...]
    confidence: str
    why_bounded: str = ""
    written_over: Mapping[int, int] = field(default_factory=dict)
    cuts: Mapping[int, Cut] = field(default_factory=dict)
    """Operation -> how it runs in parts, where that is known."""

    @property
    def in_parts(self) -> frozenset[int]:
        """Operations that it cuts, whether or not it is known how."""
        lives = (life for group in self.groups for life in group.lives)
        return frozenset(life.producer for life in lives) if self.edit.kind == CHUNK else frozenset()

    @property
    def freed(self) -> frozenset[int]:
        """Tensors that it frees."""
        return frozenset(self.change) if self.edit.kind == FREE else frozenset()

    def on(self, draft: Draft) -> Draft:
        """The draft with this edit."""
        return draft.with_change(self.change, self.written_over, self.in_parts, self.freed)
