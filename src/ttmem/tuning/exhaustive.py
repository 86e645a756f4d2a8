# SPDX-License-Identifier: Apache-2.0
"""Every set of a few edits, tried: is there a smaller one than a search has found?

Whatever reaches the target makes room at the first moment that is too full, so only the edits that do so there are
tried next. That leaves out no set, unless the room is there already and lies in pieces: then addresses decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ttmem.tuning.edited_run import Applied
from ttmem.tuning.edited_run import Draft
from ttmem.tuning.proposals import MOST_GROUPS, Proposal

_MOST_SECONDS = 4.0
_MOST_TRIED = 4000


@dataclass(frozen=True, slots=True)
class TooFull:
    """A moment at which a memory holds more than it may."""

    memory: int
    position: int
    excess_bytes_per_bank: int
    is_scattered: bool = False
    """There is room enough, but not in one piece."""


class Exhaustive:
    """Sets of edits, the small ones first."""

    def __init__(
        self,
        too_full: Callable[[Draft], TooFull | None],
        candidates: Callable[[Draft, TooFull], list[tuple[int, Proposal]]],
        extended: Callable[[Draft, Proposal], tuple[Draft, Applied | None]],
    ) -> None:
        self._too_full, self._candidates, self._extended = too_full, candidates, extended
        self._ends = time.monotonic() + _MOST_SECONDS
        self.tried = 0
        self.is_complete = True
        """Nothing was left out so far."""

    def within(self, draft: Draft, count: int) -> list[Proposal] | None:
        """A set of so many edits that reaches the target; None when none was found."""
        full = self._too_full(draft)
        if full is None:
            return []
        if full.is_scattered:
            self.is_complete = False
        if count == 0:
            return None
        found = self._candidates(draft, full)
        if len({id(proposal.group) for _, proposal in found}) >= MOST_GROUPS:
            self.is_complete = False
        if not full.is_scattered and sum(saved for saved, _ in found[:count]) < full.excess_bytes_per_bank:
            return None
        for saved, proposal in found:
            if not full.is_scattered and saved * count < full.excess_bytes_per_bank:
                break  # those behind save no more: not even so many of them are enough
            if self.tried >= _MOST_TRIED or time.monotonic() > self._ends:
                self.is_complete = False
                return None
            self.tried += 1
            after, applied = self._extended(draft, proposal)
            if applied is None:
                continue
            rest = self.within(after, count - 1)
            if rest is not None:
                return [proposal, *rest]
        return None
