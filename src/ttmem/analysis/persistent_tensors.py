# SPDX-License-Identifier: Apache-2.0
"""What a program keeps on purpose: weights and caches, which the next call reads again."""

import re

import numpy as np

from ttmem.profile.model import START, USE, Profile, Timeline

_ITEM = re.compile(r"\[[^\]]*\]$")


def lasting_rows(profile: Profile, timeline: Timeline) -> set[int]:
    """Rows of the table of buffers that are no leak though nobody reads them again in this run.

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
    """Whether each was made after the one before had been read for the last time: a loop's inputs, not weights."""
    order = np.argsort(made)
    return len(made) > 1 and bool((made[order][1:] > read[order][:-1]).all())
