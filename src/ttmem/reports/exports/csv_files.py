# SPDX-License-Identifier: Apache-2.0
"""Comma-separated tables: ``operations.csv``, ``states.csv``, ``tensors.csv``, ... in one folder."""

import csv
from pathlib import Path
from typing import Any, TextIO

from ttmem.base.text_safety import escape_control_characters
from ttmem.profile.model import Profile
from ttmem.reports.exports._place import new_folder
from ttmem.reports.exports.tables import TRUTH, Column, tables


def write(profile: Profile, out: Path, *, with_source: bool = False) -> Path:
    """Write the folder; tables have no place for source files, so ``with_source`` changes nothing."""
    with new_folder(out) as folder:
        for table in tables(profile):
            path = folder / f"{table.name}.csv"
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(_Gated(file), lineterminator="\n")
                writer.writerow(table.columns)
                writer.writerows(zip(*map(_cells, table.columns.values()), strict=True))
    return out


class _Gated:
    """A file for people's spreadsheets and pagers."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        return self._file.write(escape_control_characters(text))


def _cells(column: Column) -> list[Any]:
    if column.kind != TRUTH:
        return column.values  # the writer leaves None empty
    return [None if value is None else str(value).lower() for value in column.values]
