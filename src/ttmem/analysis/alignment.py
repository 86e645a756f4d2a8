# SPDX-License-Identifier: Apache-2.0
"""Which operation of one profile is which operation of another, although numbers and lines have moved.

Compilers number everything (`%85`, `fusion.586`), so one more operation renames all that follow. What stays is
the operation's name, its location without those numbers, and its place among its like.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence

import numpy as np

from ttmem.profile.model import Profile
from ttmem.profile.operation_forms import Int32
from ttmem.profile.tensor_type import TensorType

_HLO_NUMBER = re.compile(r"\.\d+(?=$|_|[^\w.])")
"""``fusion.586``, ``gather.17_workaround``; not the layer in ``layers.0.mlp``."""
_LINE_NUMBER = re.compile(r"(?:(?<=[:|])|^)-?\d+(?=$|[:|,\s)\]])")
"""``model.py:120``, and the numeric fields of ``12|Linear[fc]|model.py:120|forward|131|aten__mm``."""


def normalised_location(location: str) -> str:
    """The location without the numbers that an unrelated edit changes."""
    return _LINE_NUMBER.sub("", _HLO_NUMBER.sub("", location))


def result_types(profile: Profile, form: int) -> tuple[TensorType | None, ...]:
    """The types an operation produces; None for what is not a tensor."""
    _, indices = profile.forms.signatures[profile.forms.signature[form]]
    return tuple(profile.tensor_types[index] if index >= 0 else None for index in indices)


def executed_forms(profile: Profile) -> Int32:
    """The form of every executed operation, process after process."""
    return np.concatenate([timeline.form for timeline in profile.timelines] or [np.empty(0, np.int32)])


def partners(before: Profile, after: Profile, names: Collection[str]) -> dict[int, int]:
    """For the forms of ``after`` with these operation names: the form of ``before`` that is the same operation."""
    left_before, left_after = _forms_in_order(before, names), _forms_in_order(after, names)
    found: dict[int, int] = {}
    # First by name and place in the user's program; then, for what was moved or renamed, by name alone.
    for with_location in (True, False):
        groups_before = _grouped(before, left_before, with_location=with_location)
        groups_after = _grouped(after, left_after, with_location=with_location)
        for key, group_after in groups_after.items():
            group_before = groups_before.get(key, [])
            pairs = aligned(
                [result_types(before, form) for form in group_before],
                [result_types(after, form) for form in group_after],
            )
            found.update((group_after[second], group_before[first]) for first, second in pairs)
        taken = set(found.values())
        left_before = [form for form in left_before if form not in taken]
        left_after = [form for form in left_after if form not in found]
    return found


def aligned(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pairs of positions: the common head and tail, then equal items in order, then what is left in order.

    One inserted item stays without a partner and one changed item keeps its own, in linear time.
    """
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    pairs = [(position, position) for position in range(head)]
    pairs += [(len(before) - 1 - back, len(after) - 1 - back) for back in range(tail)]
    equal: dict[Hashable, list[int]] = defaultdict(list)
    for position in range(len(before) - tail - 1, head - 1, -1):
        equal[before[position]].append(position)
    unpaired_after, used = [], set()
    for position in range(head, len(after) - tail):
        if equal[after[position]]:
            used.add(match := equal[after[position]].pop())
            pairs.append((match, position))
        else:
            unpaired_after.append(position)
    unpaired_before = [position for position in range(head, len(before) - tail) if position not in used]
    pairs += zip(unpaired_before, unpaired_after, strict=False)
    return sorted(pairs)


def _forms_in_order(profile: Profile, names: Collection[str]) -> list[int]:
    """Executed forms with these names, by first appearance."""
    forms, first = np.unique(executed_forms(profile), return_index=True)
    wanted = np.array([name in names for name in profile.forms.names], dtype=bool)
    ordered: list[int] = forms[np.argsort(first)].tolist()
    return [form for form in ordered if wanted[profile.forms.name[form]]]


def _grouped(profile: Profile, forms: Sequence[int], *, with_location: bool) -> dict[tuple[str, str], list[int]]:
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for form in forms:
        place = normalised_location(profile.forms.location(form)) if with_location else ""
        groups[profile.forms.name_of(form), place].append(form)
    return groups
