# SPDX-License-Identifier: Apache-2.0
"""The log of memory events in order, from which a run can be replayed."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ttmem.profile.model import CLOSING, GIVE, GIVEN, LAUNCH, MEMORIES, START, TAKE, USE, EventTable

_COLUMNS = (np.int8, np.int32, np.int8, np.int32, np.int8, np.int64, np.int64, np.int64)


class EventLog:
    """Takes recorder messages in order. Buffers are numbered over all devices that were opened in turn."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._numbers: dict[int, int] = {}
        """Recorder's number of a buffer of the open device -> ours."""
        self._live: dict[int, None] = {}
        """Live buffers, by the recorder's number."""
        self._taken = 0
        self._paths: dict[str, int] = {}
        self._folder = str(Path.cwd()) + os.sep

    def open(self) -> None:
        """Open another device: the recorder counts from 0 again."""
        self._numbers.clear()
        self._live.clear()

    def start(self, index: int, message: Mapping[str, Any]) -> None:
        """Begin an operation: log the changes since the last one, and its inputs."""
        self.add_changes(index, message)
        path = "\n".join(step.removeprefix(self._folder) for step in message.get("path", ()))
        number = self._paths.setdefault(path, len(self._paths))
        given = message.get("given", sum({GIVEN[option] for option in message.get("options", ()) if option in GIVEN}))
        self._rows.append((START, index, 1, number, 0, given, message.get("origin", 0), message.get("named_at", 0)))
        for buffer in dict.fromkeys(message.get("uses", ())):
            if buffer in self._numbers:
                self._rows.append((USE, index, 1, self._numbers[buffer], 0, 0, 0, 0))

    def end(self, index: int, message: Mapping[str, Any]) -> None:
        """End an operation. A refused program has no place in the order: it comes last."""
        order, needs = message.get("order", ()), list(message.get("needs", ()))
        self._add_moves(index, 1, order, message["born"], (), needs)
        for need in needs[sum(move is None for move in order) :]:
            self._rows.append((LAUNCH, index, 1, 0, 0, need, 0, 0))

    def add_changes(self, index: int, message: Mapping[str, Any]) -> None:
        self._add_moves(index, 0, message.get("order", ()), message.get("came", ()), message.get("brief", ()))

    def close(self, index: int) -> None:
        """Close the device, which frees everything on it."""
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
        """Return our number of a recorder's buffer; -1 when its allocation was not reported."""
        return self._numbers.get(recorded, -1)

    def build_table(self, row_of: Mapping[int, int], pools: Mapping[str, Sequence[int]] | None) -> EventTable:
        """Build the table; ``row_of`` gives the rows of buffers in the table of buffers."""
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
