# SPDX-License-Identifier: Apache-2.0
"""A ttnn-visualizer database, whatever its schema: only columns that exist are asked for, the rest have defaults.

Schemas from before versions were written (2024) up to 3.5 are read; what a newer one adds is ignored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.engines.worker.graph_nodes.parameters import whole_number
from ttmem.readers.sqlite_tables import opened_tables, tables_of

_LEAST_BYTES_PER_ROW = 2
_HINT = "a report of ttnn-visualizer is a folder with a db.sqlite that has the tables 'operations' and 'buffers'"

Row = tuple[Any, ...]


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    """The database, read-only; nothing beside it is written, not even a journal."""
    try:
        with opened_tables(path, immutable=True) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            yield Database(connection, path)
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:  # the second: a damaged name in an error text
        raise BadInputError(f"cannot be read as a database: {error}", where=str(path), hint=_HINT) from None


class Database:
    """Tables and columns as they are."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.where = where = str(path)
        self._columns = tables_of(connection)
        self._most_rows = path.stat().st_size // _LEAST_BYTES_PER_ROW
        self.warnings = [
            f"{beside.name} beside it is not read: what was written last may be missing"
            for beside in (path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-journal"))
            if beside.is_file() and beside.stat().st_size
        ]
        missing = [table for table in ("operations", "buffers") if table not in self._columns]
        if missing:
            tables = ", ".join(sorted(self._columns)) or "none"
            raise BadInputError(f"no table '{missing[0]}' (tables: {tables[:200]})", where=where, hint=_HINT)

    def ranks(self) -> list[int]:
        """The processes in the report; one, numbered 0, where the schema does not know ranks."""
        if "rank" not in self._columns["operations"]:
            return [0]
        found = self._connection.execute("SELECT DISTINCT rank FROM operations").fetchall()
        return sorted({whole_number(rank) for (rank,) in found}) or [0]

    def select(self, table: str, columns: Mapping[str, Any], *, rank: int, order: str = "") -> Iterator[Row]:
        """Rows of one process with these columns (name -> default), in the order given or as they were written."""
        if table not in self._columns:
            return
        known = self._columns[table]
        of_rank, ranks = self._of_rank(table, rank)
        wanted = ", ".join(f'"{name}"' if name in known else "?" for name in columns)
        defaults = [default for name, default in columns.items() if name not in known]
        sorted_by = f' ORDER BY "{order}"' if order in known else ""
        rows = self._connection.execute(f'SELECT {wanted} FROM "{table}"{of_rank}{sorted_by}', [*defaults, *ranks])
        for number, row in enumerate(rows):
            if number > self._most_rows:
                raise BadInputError(
                    f"the table '{table}' cannot be read to its end", where=self.where, hint="the file is damaged"
                )
            yield row

    def sums(self, table: str, key: str, amount: str, *, rank: int) -> dict[int, int]:
        """The sum of a column per value of another one, worked out where the rows are: there may be millions."""
        if not {key, amount} <= set(self._columns.get(table, ())):
            return {}
        of_rank, ranks = self._of_rank(table, rank)
        rows = self._connection.execute(
            f'SELECT "{key}", total("{amount}") FROM "{table}"{of_rank} GROUP BY "{key}"', ranks
        )
        return {whole_number(value): whole_number(total) for value, total in rows}

    def _of_rank(self, table: str, rank: int) -> tuple[str, tuple[int, ...]]:
        return (" WHERE ifnull(rank, 0) = ?", (rank,)) if "rank" in self._columns[table] else ("", ())

    def metadata(self) -> dict[str, str]:
        if not {"key", "value"} <= set(self._columns.get("report_metadata", ())):
            return {}
        return {
            str(key): str(value) for key, value in self._connection.execute("SELECT key, value FROM report_metadata")
        }
