# SPDX-License-Identifier: Apache-2.0
"""Arguments that stay on the device from run to run: parameters, constants, and caches that a graph updates.

A graph that is not running still holds its parameters. No operation of the current run names them, but earlier runs
did, and the graphs' dumps show which arguments stay.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ttmem.profile.model import Profile, Timeline


@dataclass(frozen=True, slots=True)
class ResidentName:
    """The name that a graph gives an argument that stays."""

    name: str
    weight: bool
    """False for a cache: it stays, but it is not a weight."""


Names = dict[tuple[int, tuple[int, ...]], ResidentName]
"""(position, shape) -> name."""


def resident_names(profile: Profile) -> Names:
    """The arguments that stay, where all graphs that have one at this position and of this shape agree."""
    names: Names = {}
    disputed = set()
    for argument in profile.arguments:
        weight = argument.kind in ("parameter", "constant")
        if weight or argument.kv_cache:
            key = (argument.position, argument.shape)
            if names.setdefault(key, ResidentName(argument.name, weight)).name != argument.name:
                disputed.add(key)
    return {key: name for key, name in names.items() if key not in disputed}


def resident_arguments(
    profile: Profile, timeline: Timeline, names: Names, end: int
) -> Iterator[tuple[ResidentName, int, int]]:
    """(name, type number, last use) of what the runs before operation ``end`` used and did not free, each once."""
    tops = np.array([program.parent < 0 for program in timeline.programs] + [False])
    before = slice(0, max(0, end - timeline.first_index))
    in_runs = np.flatnonzero(tops[timeline.program[before]])
    used, from_behind = np.unique(timeline.form[before][in_runs[::-1]], return_index=True)
    last_uses = timeline.first_index + in_runs[::-1][from_behind]
    kept_anyway = {int(timeline.form[index - timeline.first_index]) for index in timeline.retained}
    found: dict[tuple[ResidentName, int], int] = {}
    freed = set()
    for number, last_use in zip(used.tolist(), last_uses.tolist(), strict=True):
        if b"%arg" not in profile.forms.values(number):
            continue
        form = profile.forms[number]
        for name, type_number in zip(form.operands, form.operand_types, strict=False):
            position = argument_number(name)
            if position < 0 or type_number < 0:
                continue
            known = names.get((position, profile.tensor_types[type_number].shape))
            if known and form.name == "ttnn.deallocate" and number not in kept_anyway:
                freed.add((known, type_number))
            elif known:
                found[known, type_number] = max(last_use, found.get((known, type_number), -1))
    yield from ((*entry, last_use) for entry, last_use in found.items() if entry not in freed)


def argument_number(name: str) -> int:
    """3 of ``%arg3``, -1 of every other name."""
    digits = name[4:]
    return int(digits) if name.startswith("%arg") and digits.isdigit() and len(digits) < 10 else -1
