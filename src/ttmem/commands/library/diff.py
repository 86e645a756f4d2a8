# SPDX-License-Identifier: Apache-2.0
"""``ttmem.diff``: what grew from one profile to another."""

from dataclasses import dataclass
from typing import Any

from ttmem.analysis.budget import PERCENT, Amount, Limit, parse_limit, undecided
from ttmem.analysis.diff import MemoryDiff
from ttmem.analysis.diff import diff as compare
from ttmem.commands.read import Progress, Source, read
from ttmem.profile.model import Profile


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed, and whether it is more than was allowed."""

    changes: MemoryDiff
    limit: Limit | None
    """What ``fail_on`` asked for; None when any growth is fine."""
    before: Profile
    after: Profile

    @property
    def regression(self) -> bool:
        """Whether the peak of any memory grew by more than the limit."""
        limit = self.limit
        return limit is not None and self.changes.grows_over(limit.amount, in_percent=limit.unit == PERCENT)

    def to_json(self) -> dict[str, Any]:
        """The document of ``ttmem diff --json``."""
        from ttmem.reports.diff.document import document

        return document(self.changes, self.regression).to_json()

    def to_html(self) -> str:
        """The page of ``ttmem diff --html``: both profiles over one another."""
        from ttmem.reports.diff import html

        return html.render(self.before, self.after, self.changes, regression=self.regression)


def diff(
    before: Source,
    after: Source,
    *,
    fail_on: Amount | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Difference:
    """Compare two sources: which memory grew, which tensor, and the operation that made it.

    ``fail_on`` is the growth of a peak from which on it is a regression: ``"5%"``, ``0.05`` or bytes per bank.
    """
    limit = None if fail_on is None else parse_limit(fail_on)  # a wrong limit is refused before minutes of reading
    first, second = (read(source, jobs=jobs, progress=progress) for source in (before, after))
    changes = compare(first, second)
    if limit is not None:
        in_percent = limit.unit == PERCENT
        doubts = changes.doubts(limit.amount, in_percent=in_percent)
        if doubts and not changes.surely_grows_over(limit.amount, in_percent=in_percent):
            raise undecided(doubts)
    return Difference(changes, limit, first, second)
