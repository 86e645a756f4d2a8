# SPDX-License-Identifier: Apache-2.0
"""SQLite files that somebody else wrote: rows of their tables are read, nothing that the file says is executed.

A database may hold programs: views (which can loop for ever), triggers, virtual tables, generated columns. Tables are
read by name and column; everything else is refused by SQLite itself before it runs. Damage can make a small file look
like endless rows, so what a query may do is bounded by the size of the file.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from ttmem.base.errors import BadInputError

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
_HINT = "nothing but tables is read, and no file of this size can hold so much"


@contextmanager
def opened_tables(path: Path, *, immutable: bool) -> Iterator[sqlite3.Connection]:
    """A connection on which tables can be read; ``sqlite3.Error`` of the file's making is left to the caller.

    ``immutable`` reads without locks and looks at no other file, which also works on read-only file systems. Without it
    what a process has written to the log beside the file is seen too.
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
        connection.set_authorizer(_may)
        connection.set_progress_handler(look, _LOOK_EVERY)
        try:
            yield connection
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            raise BadInputError("cannot be read to its end", where=str(path), hint=_HINT) from None


def tables_of(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Table -> its columns. Views, virtual tables (which have no page of their own) and generated columns are none."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0").fetchall()
    return {
        str(name): [str(row[1]) for row in connection.execute(f'PRAGMA table_info("{name}")')]
        for (name,) in names
        if str(name).isidentifier()
    }


def _may(action: int, first: str | None, second: str | None, _: str | None, inner: str | None) -> int:
    """What SQLite asks while it compiles a statement; ``inner`` is the view or trigger that it would run for it."""
    if inner is None and (
        action in _ALLOWED
        or (action == sqlite3.SQLITE_FUNCTION and str(second).lower() in _FUNCTIONS)
        or (action == sqlite3.SQLITE_PRAGMA and first == "table_info")
    ):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
