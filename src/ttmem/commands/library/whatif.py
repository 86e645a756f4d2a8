# SPDX-License-Identifier: Apache-2.0
"""``ttmem.whatif``: a captured run with changes, before they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ttmem.commands.read import Source, read
from ttmem.profile.model import Profile
from ttmem.tuning.edited_run import Applied
from ttmem.tuning.apply_edit import apply
from ttmem.tuning.captured_run import history
from ttmem.tuning.edited_run import Draft, as_captured
from ttmem.tuning.edits import BOARD, CHUNK, Edit, parse_edit
from ttmem.tuning.figures import Figures, figures
from ttmem.tuning.programs import with_programs
from ttmem.tuning.replay import profile_of

if TYPE_CHECKING:
    from ttmem.reports.whatif.document import WhatIfDocument

_LAST = (CHUNK, BOARD)
"""Parts are those of the tensors as all other edits leave them."""


@dataclass(frozen=True, eq=False)
class WhatIf:
    """What changes would do."""

    before: Figures
    after: Figures
    applied: tuple[Applied, ...]
    draft: Draft
    programs_doubt: str = ""
    """Why what programs need in L1 is not certain; empty when it is."""

    def profile(self, name: str | None = None) -> Profile:
        """The changed run as a Profile: ``diff`` it, ``check`` it, store it."""
        return profile_of(self.draft, name or f"{self.draft.history.profile.name}-whatif")

    def document(self) -> WhatIfDocument:
        """The answer of ``ttmem whatif``."""
        from ttmem.reports.whatif.document import document

        return document(self.before, self.after, self.applied, self.draft, self.programs_doubt)

    def to_json(self) -> dict[str, Any]:
        """The document of ``ttmem whatif --json``."""
        return self.document().to_json()


def whatif(source: Source, edits: Sequence[str | Edit], *, board: str | None = None) -> WhatIf:
    """Apply edits (``free:x@41``, ``memory:q@12=DRAM``, ``dtype:*.weight=bfloat8_b``, ...) to a captured run.

    It is played again on the twin's allocator; without edits that gives the captured addresses to the byte.
    """
    chosen = [parse_edit(one) if isinstance(one, str) else one for one in edits]
    if board is not None:
        chosen.append(Edit(BOARD, value=board))
    chosen.sort(key=lambda edit: _LAST.index(edit.kind) if edit.kind in _LAST else -1)
    start = draft = as_captured(history(read(source)))
    applied: list[Applied] = []
    for edit in chosen:
        draft, one = apply(draft, edit)
        applied.append(one)
    draft, doubt = with_programs(draft)
    return WhatIf(figures(start), figures(draft), tuple(applied), draft, doubt)
