# SPDX-License-Identifier: Apache-2.0
"""Tensors that a program keeps on purpose: weights and caches, which the next call reads again."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ttmem.profile.model import START, USE, Profile, Timeline

_ITEM = re.compile(r"\[[^\]]*\]$")


def lasting_rows(profile: Profile, timeline: Timeline) -> set[int]:
    """Rows of the buffer table that are no leak although this run does not read them again.

    That is what was uploaded and is kept, and what an object's own method made from nothing and the object holds. Not
    what a loop uploads and puts into a list turn by turn: the next turn's input is there after the last one was read.
    """
    buffers, events = timeline.buffers, timeline.events
    if buffers is None or events is None:
        return set()
    weights = {argument.name for argument in profile.arguments}
    reading = set(events.operation[events.kind == USE].tolist())
    starts = events.kind == START
    columns = (events.operation, events.buffer, events.address)
    calls = {
        index: (path, up) for index, path, up in zip(*(column[starts].tolist() for column in columns), strict=True)
    }
    depths = [path.count("\n") for path in events.call_paths]
    found: set[int] = set()
    sites: dict[tuple[int, int], list[int]] = {}
    for row, producer in enumerate(buffers.producer.tolist()):
        name = buffers.names[int(buffers.name[row])]
        path, up = calls.get(producer, (-1, 0))
        if name in weights:
            found.add(row)
            if _ITEM.search(name) and path >= 0:
                sites.setdefault((path, up), []).append(row)
        elif path >= 0 and producer not in reading and "." in name and not name.startswith("result of"):
            is_made_inside = depths[path] - up > 0  # a statement of the script itself may hold anything for anyone
            found |= {row} if is_made_inside else set()
    for rows in sites.values():
        if _is_fed(buffers.producer[rows], buffers.last_use[rows]):
            found.difference_update(rows)
    return found


def _is_fed(made: np.ndarray, read: np.ndarray) -> bool:
    """Return True if each was made after the last read of the one before: inputs of a loop, not weights."""
    order = np.argsort(made)
    return len(made) > 1 and bool((made[order][1:] > read[order][:-1]).all())


_FREES = ("deallocate",)


def freeing_operations(profile: Profile, timeline: Timeline) -> set[int]:
    """The operations of a timeline that free their argument."""
    names = [number for number, name in enumerate(profile.forms.names) if name.rpartition(".")[2] in _FREES]
    forms = np.flatnonzero(np.isin(profile.forms.name, names))
    positions = np.flatnonzero(np.isin(timeline.form, forms))
    return set((positions + timeline.first_index).tolist())


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
