# SPDX-License-Identifier: Apache-2.0
"""Two profiles on one page: curves over one another, what appeared, grew, went."""

from collections.abc import Sequence

import msgspec
import numpy as np

from ttmem.analysis._alignment import aligned, partners
from ttmem.analysis.diff import MemoryDiff
from ttmem.profile import Profile
from ttmem.reports.diff import terminal
from ttmem.reports.diff.document import document
from ttmem.reports.kit import app
from ttmem.reports.kit.columns import Packed
from ttmem.reports.kit.units import short
from ttmem.reports.profile import html

_MOST_PAIRS = 5000
_MOST_ALIGNED = 200_000
"""Operations of a profile from which on curves are laid over one another by number."""


def render(before: Profile, after: Profile, changes: MemoryDiff, *, regression: bool = False) -> str:
    """The page; each profile's own overview is on it too."""
    names = [short(name, 60) for name in (changes.before_name, changes.after_name)]
    title = f"{names[0]} and {names[1]}"
    grown = max(changes.memories.values(), key=lambda change: abs(change.delta_bytes_per_bank), default=None)
    if grown is None or not grown.delta_bytes_per_bank:
        subtitle = "The peaks are the same."
    else:
        verb = "grew" if grown.delta_bytes_per_bank > 0 else "shrank"
        subtitle = f"The peak of {grown.memory} {verb} from {names[0]} to {names[1]}."
    if changes.pairs:
        kinds = ["predicted" if profile.source.kind == "predicted" else "measured" for profile in (before, after)]
        subtitle = f"{names[0]} ({kinds[0]}) and {names[1]} ({kinds[1]}) are two programs of one model. {subtitle}"
    header = {
        "part": "compare",
        "title": title,
        "subtitle": subtitle,
        "document": msgspec.to_builtins(document(changes, regression)),
        "anchors": _shifts(changes.pairs) if changes.pairs else _anchors(before, after),
        "pairs": list(changes.pairs[:_MOST_PAIRS]),
    }
    first = Packed(app.header(header)).compressed()
    sides = [html.blocks(profile, side=side) for side, profile in enumerate((before, after))]
    return app.frame("compare", title, [first, *sides[0], *sides[1]], plain=terminal.render(changes))


def _shifts(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those after which the distance between the two is another one."""
    kept: list[tuple[int, int]] = []
    for pair in pairs:
        if not kept or pair[1] - pair[0] != kept[-1][1] - kept[-1][0]:
            kept.append(pair)
    return kept


def _anchors(before: Profile, after: Profile) -> list[tuple[int, int]]:
    """(operation before, operation after) that are the same one, where the distance between the two changes.

    Only pairs in order count: a curve runs one way. Empty when the profiles are too long to be aligned.
    """
    if not before.timelines or not after.timelines:
        return []
    first, second = before.timelines[0], after.timelines[0]
    if not (0 < len(first) <= _MOST_ALIGNED and 0 < len(second) <= _MOST_ALIGNED):
        return []
    partner = partners(before, after, set(after.forms.names))
    same = np.full(len(after.forms), -1, np.int64)
    same[list(partner)] = list(partner.values())
    counterparts = same[second.form]
    # What has no counterpart must equal nothing of the first profile.
    wanted = np.where(counterparts >= 0, counterparts, -1 - np.arange(len(counterparts))).tolist()
    executed = first.form.tolist()
    anchors: list[tuple[int, int]] = []
    reached = -1
    for old, new in aligned(executed, wanted):
        if executed[old] != wanted[new] or new <= reached:
            continue
        reached = new
        pair = (old + first.first_index, new + second.first_index)
        if not anchors or pair[1] - pair[0] != anchors[-1][1] - anchors[-1][0]:
            anchors.append(pair)
    return anchors
