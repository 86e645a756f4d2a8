# SPDX-License-Identifier: Apache-2.0
"""The order of everything that a recorder tells of the memory: the events that a run can be replayed from."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ttmem.profile.model import CLOSING, GIVE, GIVEN, LAUNCH, MEMORIES, START, TAKE, USE, EventTable

_COLUMNS = (np.int8, np.int32, np.int8, np.int32, np.int8, np.int64, np.int64, np.int64)


class EventLog:
    """Takes the recorder's messages in order. Its buffers are counted over all devices that were opened in turn."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._numbers: dict[int, int] = {}
        """The recorder's number of a buffer of the open device -> ours."""
        self._live: dict[int, None] = {}
        """Those that are there now, by the recorder's number."""
        self._taken = 0
        self._paths: dict[str, int] = {}
        self._folder = str(Path.cwd()) + os.sep

    def open(self) -> None:
        """Another device: the recorder counts from 0 again."""
        self._numbers.clear()
        self._live.clear()

    def start(self, index: int, message: Mapping[str, Any]) -> None:
        """An operation begins: what changed since the one before, and what it reads."""
        self.add_changes(index, message)
        path = "\n".join(step.removeprefix(self._folder) for step in message.get("path", ()))
        number = self._paths.setdefault(path, len(self._paths))
        given = message.get("given", sum({GIVEN[option] for option in message.get("options", ()) if option in GIVEN}))
        self._rows.append((START, index, 1, number, 0, given, message.get("origin", 0), message.get("named_at", 0)))
        for buffer in dict.fromkeys(message.get("uses", ())):
            if buffer in self._numbers:
                self._rows.append((USE, index, 1, self._numbers[buffer], 0, 0, 0, 0))

    def end(self, index: int, message: Mapping[str, Any]) -> None:
        """What it did. A program that was refused has no place in the order: it is the last thing that happened."""
        order, needs = message.get("order", ()), list(message.get("needs", ()))
        self._add_moves(index, 1, order, message["born"], (), needs)
        for need in needs[sum(move is None for move in order) :]:
            self._rows.append((LAUNCH, index, 1, 0, 0, need, 0, 0))

    def add_changes(self, index: int, message: Mapping[str, Any]) -> None:
        """What changed outside operations."""
        self._add_moves(index, 0, message.get("order", ()), message.get("came", ()), message.get("brief", ()))

    def close(self, index: int) -> None:
        """The device is closed, and everything on it is gone."""
        self._add_moves(index, CLOSING, [~number for number in self._live], (), ())

    def _add_moves(
        self,
        index: int,
        inside: int,
        order: Sequence[int | None],
        born: Sequence[Sequence[int]],
        brief: Sequence[Sequence[int]],
        needs: Sequence[int] = (),
    ) -> None:
        rows = {row[0]: row for row in (*born, *brief)}
        launches = iter(needs)
        for move in order:
            if move is None:
                self._rows.append((LAUNCH, index, inside, 0, 0, next(launches, -1), 0, 0))
            elif move >= 0:
                _, memory, address, bytes_per_bank, total = rows[move]
                self._rows.append((TAKE, index, inside, self._taken, memory, bytes_per_bank, total, address))
                self._numbers[move] = self._taken
                self._live[move] = None
                self._taken += 1
            elif ~move in self._live:
                del self._live[~move]
                self._rows.append((GIVE, index, inside, self._numbers[~move], 0, 0, 0, 0))

    def find_number(self, recorded: int) -> int:
        """Ours for a buffer of the recorder's; -1 when it never told that it came."""
        return self._numbers.get(recorded, -1)

    def build_table(self, row_of: Mapping[int, int], pools: Mapping[str, Sequence[int]] | None) -> EventTable:
        """All of it; ``row_of`` says which buffers have a row in the table of buffers."""
        columns = np.array(self._rows, np.int64).reshape(-1, len(_COLUMNS)).T
        kinds, operation, inside, buffer, memory, taken, total, address = (
            column.astype(type_) for column, type_ in zip(columns, _COLUMNS, strict=True)
        )
        row = np.full(len(kinds), -1, np.int32)
        takes = np.flatnonzero(kinds == TAKE)
        row[takes] = [row_of.get(number, -1) for number in buffer[takes].tolist()]
        banks, base, bytes_per_bank = range(3)
        places = (
            tuple(
                (int(pools[name][banks]), int(pools[name][base]), int(pools[name][bytes_per_bank])) for name in MEMORIES
            )
            if pools
            else ()
        )
        paths = tuple(self._paths)
        return EventTable(kinds, operation, inside, buffer, memory, taken, total, address, row, places, paths)
