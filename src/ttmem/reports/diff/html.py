# SPDX-License-Identifier: Apache-2.0
"""Two profiles on one page: curves over one another, what appeared, grew, went."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from ttmem.analysis.alignment import aligned, partners
from ttmem.analysis.diff import MemoryDiff
from ttmem.analysis.suite import memory_of_tests
from ttmem.profile.model import SUITE_KIND, Profile, Timeline
from ttmem.reports.diff import terminal
from ttmem.reports.diff.document import document
from ttmem.reports.kit import page_bundle
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
    known = [change for change in changes.memories.values() if change.is_known]
    grown = max(known, key=lambda change: abs(change.delta_bytes_per_bank or 0), default=None)
    if grown is None:
        subtitle = "No memory is known in both."
    elif not grown.delta_bytes_per_bank:
        subtitle = "The peaks are the same."
    else:
        verb = "grew" if grown.delta_bytes_per_bank > 0 else "shrank"
        subtitle = f"The peak of {grown.memory} {verb} from {names[0]} to {names[1]}."
    shared = max((len(change.pairs) for change in changes.memories.values()), default=0)
    if shared:
        kinds = ["predicted" if profile.source.kind == "predicted" else "measured" for profile in (before, after)]
        told = f"{names[0]} ({kinds[0]}) and {names[1]} ({kinds[1]}) are two programs with {shared} steps in common"
        subtitle = f"{told}. {subtitle}"
    header = {
        "part": "compare",
        "title": title,
        "subtitle": subtitle,
        "document": msgspec.to_builtins(document(changes, regression)),
        "alignments": _alignments(before, after, changes),
        "tests": _tests(before, after) if before.source.kind == after.source.kind == SUITE_KIND else [],
    }
    first = Packed(page_bundle.header(header)).compressed()
    sides = [html.blocks(profile, side=side) for side, profile in enumerate((before, after))]
    return page_bundle.frame("compare", title, [first, *sides[0], *sides[1]], plain=terminal.render(changes))


def _alignments(before: Profile, after: Profile, changes: MemoryDiff) -> dict[str, dict[str, object]]:
    """For each memory: where the operations of the process of one peak lie in the process of the other."""
    found: dict[str, dict[str, object]] = {}
    known: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for memory, change in changes.memories.items():
        if change.before_peak is None or change.after_peak is None:
            continue
        first, second = place = change.before_peak.timeline, change.after_peak.timeline
        if change.pairs:
            known[place] = _shifts(change.pairs)
        elif place not in known:
            known[place] = _anchors(before, before.timelines[first], after, after.timelines[second])
        found[memory] = {"anchors": known[place], "pairs": change.pairs[:_MOST_PAIRS]}
    return found


def _tests(before: Profile, after: Profile) -> list[tuple[str, str, int | None, int | None]]:
    """Tests of two suites that need other amounts, or that one of them does not have: name, memory, before, after."""
    first, second = memory_of_tests(before), memory_of_tests(after)
    changed = []
    for test in {**first, **second}:
        old, new = (one[test].figures if test in one else {} for one in (first, second))
        changed += [(test, memory, old.get(memory), new.get(memory)) for memory in {**old, **new}]
    changed = [row for row in changed if row[2] != row[3]]
    return sorted(changed, key=lambda row: -abs((row[3] or 0) - (row[2] or 0)))[:_MOST_PAIRS]


def _shifts(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those after which the distance between the two is another one."""
    kept: list[tuple[int, int]] = []
    for pair in pairs:
        if not kept or pair[1] - pair[0] != kept[-1][1] - kept[-1][0]:
            kept.append(pair)
    return kept


def _anchors(before: Profile, first: Timeline, after: Profile, second: Timeline) -> list[tuple[int, int]]:
    """(operation before, operation after) that are the same one, where the distance between the two changes.

    Only pairs in order count: a curve runs one way. Empty when the profiles are too long to be aligned.
    """
    if not (0 < len(first) <= _MOST_ALIGNED and 0 < len(second) <= _MOST_ALIGNED):
        return []
    # Of these processes alone: which one of a suite ran first is chance.
    both = replace(before, timelines=(first,)), replace(after, timelines=(second,))
    partner = partners(*both, set(after.forms.names))
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
