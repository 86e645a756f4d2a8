# SPDX-License-Identifier: Apache-2.0
"""Tables of foreign SQLite files, and the database of ttnn-visualizer; nothing in a file is executed.

A database may hold programs: views (which can loop for ever), triggers, virtual tables, generated columns. Tables are
read by name and column; SQLite refuses everything else before it runs. Damage can make a small file look like endless
rows, so the size of the file bounds the work of a query. Of a visualizer's schema only existing columns are asked for:
those before versions were written (2024) up to 3.5 are read, additions of newer ones are ignored.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ttmem.base.errors import BadInputError
from ttmem.engines.worker.graph_nodes import parse_number

LONGEST_VALUE_BYTES = 256 << 20
"""A captured graph is a text of some megabytes."""
_STEPS = 20_000_000
_STEPS_PER_BYTE = 50
"""A row takes some bytes, and reading it some dozens of steps of SQLite's machine."""
_LOOK_EVERY = 10_000
_LIMIT_LENGTH, _LIMIT_ATTACHED = 0, 7
"""SQLite's own numbers."""
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
_FUNCTIONS = {"total", "ifnull", "count", "coalesce", "max"}
_HINT = "nothing but tables is read, and no file of this size can hold that much"


@contextmanager
def open_tables(path: Path, *, immutable: bool) -> Iterator[sqlite3.Connection]:
    """Open a connection on which tables can be read; the caller handles a ``sqlite3.Error`` that the file causes.

    ``immutable`` reads without locks and looks at no other file, which also works on read-only file systems. Without it
    what a process has written to the log next to the file is seen too.
    """
    size = path.stat().st_size
    uri = f"file:{quote(os.fspath(path.resolve()))}?mode=ro{'&immutable=1' if immutable else ''}"
    steps_left = _STEPS + _STEPS_PER_BYTE * size

    def look() -> int:
        nonlocal steps_left
        steps_left -= _LOOK_EVERY
        return steps_left < 0

    with closing(sqlite3.connect(uri, uri=True)) as connection:
        if set_limit := getattr(connection, "setlimit", None):  # from Python 3.11 on
            set_limit(_LIMIT_LENGTH, LONGEST_VALUE_BYTES)
            set_limit(_LIMIT_ATTACHED, 0)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.set_authorizer(_authorize)
        connection.set_progress_handler(look, _LOOK_EVERY)
        try:
            yield connection
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            raise BadInputError("cannot be read to its end", where=str(path), hint=_HINT) from None


def list_tables(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Table -> its columns. Views, virtual tables (which have no page of their own) and generated columns are none."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0").fetchall()
    return {
        str(name): [str(row[1]) for row in connection.execute(f'PRAGMA table_info("{name}")')]
        for (name,) in names
        if str(name).isidentifier()
    }


def _authorize(action: int, first: str | None, second: str | None, _: str | None, inner: str | None) -> int:
    """Answer SQLite while it compiles a statement; ``inner`` is the view or trigger that it would run for it."""
    if inner is None and (
        action in _ALLOWED
        or (action == sqlite3.SQLITE_FUNCTION and str(second).lower() in _FUNCTIONS)
        or (action == sqlite3.SQLITE_PRAGMA and first == "table_info")
    ):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


_LEAST_BYTES_PER_ROW = 2
_NO_REPORT = "a report of ttnn-visualizer is a folder with a db.sqlite that has the tables 'operations' and 'buffers'"

Row = tuple[Any, ...]


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """Open the database read-only; no other file is written, not even a journal."""
    try:
        with open_tables(path, immutable=True) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            yield Database(connection, path)
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:  # the second: a damaged name in an error text
        raise BadInputError(f"cannot be read as a database: {error}", where=str(path), hint=_NO_REPORT) from None


class Database:
    """Tables and columns as they are."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.where = where = str(path)
        self._columns = list_tables(connection)
        self._most_rows = path.stat().st_size // _LEAST_BYTES_PER_ROW
        self.warnings = [
            f"{beside.name} next to it is not read: what was written last may be missing"
            for beside in (path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-journal"))
            if beside.is_file() and beside.stat().st_size
        ]
        missing = [table for table in ("operations", "buffers") if table not in self._columns]
        if missing:
            tables = ", ".join(sorted(self._columns)) or "none"
            raise BadInputError(f"no table '{missing[0]}' (tables: {tables[:200]})", where=where, hint=_NO_REPORT)

    def ranks(self) -> list[int]:
        """The processes in the report; one, numbered 0, where the schema does not know ranks."""
        if "rank" not in self._columns["operations"]:
            return [0]
        found = self._connection.execute("SELECT DISTINCT rank FROM operations").fetchall()
        return sorted({parse_number(rank) for (rank,) in found}) or [0]

    def select(self, table: str, columns: Mapping[str, Any], *, rank: int, order: str = "") -> Iterator[Row]:
        """Rows of one process with these columns (name -> default), in the order given or as they were written."""
        if table not in self._columns:
            return
        known = self._columns[table]
        of_rank, ranks = self._filter_rank(table, rank)
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
        of_rank, ranks = self._filter_rank(table, rank)
        rows = self._connection.execute(
            f'SELECT "{key}", total("{amount}") FROM "{table}"{of_rank} GROUP BY "{key}"', ranks
        )
        return {parse_number(value): parse_number(total) for value, total in rows}

    def _filter_rank(self, table: str, rank: int) -> tuple[str, tuple[int, ...]]:
        return (" WHERE ifnull(rank, 0) = ?", (rank,)) if "rank" in self._columns[table] else ("", ())

    def metadata(self) -> dict[str, str]:
        if not {"key", "value"} <= set(self._columns.get("report_metadata", ())):
            return {}
        return {
            str(key): str(value) for key, value in self._connection.execute("SELECT key, value FROM report_metadata")
        }
