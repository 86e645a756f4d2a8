# SPDX-License-Identifier: Apache-2.0
"""Databases of others: rows of tables are read, and nothing that the file says is executed."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ttmem
from support import bad_values
from support.captures import unpacked_report
from ttmem.readers import sqlite_tables
from ttmem.readers.sqlite_tables import list_tables, open_tables

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
HUGE = "hex(zeroblob(900000000))"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return unpacked_report("n150-report", tmp_path) / "db.sqlite"


def change(path: Path, *statements: str) -> None:
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def _as_view(path: Path) -> None:
    """A view in the place of a table, which never ends."""
    columns = "i AS operation_id, i AS address, i AS max_size_per_bank, 0 AS buffer_type, 0 AS device_id, 0 AS rank"
    change(path, "DROP TABLE buffers", f"CREATE VIEW buffers AS {ENDLESS} SELECT {columns} FROM n")


def _as_large_view(path: Path) -> None:
    change(path, "DROP TABLE operations", f"CREATE VIEW operations AS SELECT 1 AS operation_id, {HUGE} AS name")


def _as_virtual(path: Path) -> None:
    change(path, "DROP TABLE operations", "CREATE VIRTUAL TABLE operations USING fts5(operation_id, name, duration)")


@pytest.mark.parametrize("damage", [_as_view, _as_large_view, _as_virtual])
def test_a_view_in_the_place_of_a_table_is_no_table(damage: Callable[[Path], None], report: Path) -> None:
    damage(report)
    started = time.process_time()
    code, _, errors = bad_values.run(["profile", str(report), "--no-store"])
    assert (code, b"no table '" in errors) == (2, True), errors
    assert time.process_time() - started < 5


def test_programs_beside_the_tables_change_nothing(report: Path) -> None:
    # GIVEN a report, and the same with a view, a trigger, and columns that are computed when they are read
    before = ttmem.read(report.parent).to_json()
    change(
        report,
        f"CREATE VIEW report_metadata_view AS {ENDLESS} SELECT * FROM n",
        "CREATE TRIGGER t AFTER INSERT ON operations BEGIN DELETE FROM buffers; END",
        f"ALTER TABLE operations ADD COLUMN stack_of_nobody TEXT GENERATED ALWAYS AS ({HUGE}) VIRTUAL",
        f"ALTER TABLE buffers ADD COLUMN more TEXT GENERATED ALWAYS AS ({HUGE}) VIRTUAL",
    )
    # THEN the answer is the same
    after = ttmem.read(report.parent).to_json()
    assert {**after, "source": None} == {**before, "source": None}


def test_a_wanted_column_that_is_computed_is_not_read(report: Path) -> None:
    change(
        report,
        "ALTER TABLE operations RENAME COLUMN name TO other",
        f"ALTER TABLE operations ADD COLUMN name TEXT GENERATED ALWAYS AS ({HUGE}) VIRTUAL",
    )
    code, _, errors = bad_values.run(["profile", str(report), "--no-store", "--json"])
    assert code in (0, 2), errors
    assert b"internal error" not in errors


def test_nothing_but_rows_of_tables_can_be_asked_for(report: Path) -> None:
    change(
        report, f"CREATE VIEW endless AS {ENDLESS} SELECT i FROM n", "CREATE VIEW plain AS SELECT name FROM operations"
    )
    with open_tables(report, immutable=True) as connection:
        assert "endless" not in list_tables(connection)
        for statement in (
            "SELECT * FROM endless LIMIT 1",
            "SELECT * FROM plain",
            f"{ENDLESS} SELECT count(*) FROM n",
            "SELECT load_extension('x')",
            "SELECT hex(zeroblob(100))",
            "SELECT randomblob(10)",
            f"ATTACH '{report}' AS other",
            "PRAGMA writable_schema = ON",
            "DELETE FROM operations",
            "CREATE TABLE x (y)",
            "SELECT * FROM pragma_database_list",
        ):
            with pytest.raises(sqlite3.DatabaseError):
                connection.execute(statement).fetchall()
        assert connection.execute("SELECT count(*) FROM operations").fetchone()[0] > 0


def test_steps_and_lengths_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.sqlite"
    change(path, "CREATE TABLE t (x)", "INSERT INTO t VALUES (zeroblob(3000000))")
    monkeypatch.setattr(sqlite_tables, "LONGEST_VALUE_BYTES", 1_000_000)
    if hasattr(sqlite3.Connection, "setlimit"):
        with pytest.raises(sqlite3.DataError), open_tables(path, immutable=True) as connection:
            connection.execute("SELECT x FROM t").fetchall()
    path.unlink()
    change(path, "CREATE TABLE t (x)")
    monkeypatch.setattr(sqlite_tables, "LONGEST_VALUE_BYTES", 1 << 20)
    monkeypatch.setattr(sqlite_tables, "_STEPS", 100_000)
    database = sqlite3.connect(path)
    database.executemany("INSERT INTO t VALUES (?)", ((number,) for number in range(3000)))
    database.commit()
    database.close()
    with (
        pytest.raises(ttmem.TtmemError, match="cannot be read to its end"),
        open_tables(path, immutable=True) as connection,
    ):
        connection.execute("SELECT count(*) FROM t AS a, t AS b, t AS c").fetchall()


def test_a_damaged_tree_of_pages_is_not_followed_for_ever(tmp_path: Path) -> None:
    """Pages that point at one another make few bytes look like endless rows."""
    path = tmp_path / "db.sqlite"
    database = sqlite3.connect(path)
    database.execute("PRAGMA page_size = 512")
    database.execute("CREATE TABLE operations (operation_id INTEGER PRIMARY KEY, name TEXT, duration REAL)")
    database.execute("CREATE TABLE buffers (operation_id, device_id, address, max_size_per_bank, buffer_type)")
    database.executemany("INSERT INTO operations VALUES (?, 'ttnn.add', 1)", ((n,) for n in range(50)))
    database.executemany("INSERT INTO buffers VALUES (?, 0, ?, 2048, 0)", ((n // 100, n) for n in range(20_000)))
    database.commit()
    root = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'buffers'").fetchone()[0]
    database.close()
    content = bytearray(path.read_bytes())
    pages = {number: content[(number - 1) * 512 : number * 512] for number in range(1, len(content) // 512 + 1)}
    inner = [number for number, page in pages.items() if page[0] == 5 and number != root]
    for number in (root, *inner):  # every pointer of a page of pointers leads to the same page below it
        start = (number - 1) * 512
        cells = int.from_bytes(content[start + 3 : start + 5], "big")
        for cell in range(cells):
            place = start + int.from_bytes(content[start + 12 + 2 * cell : start + 14 + 2 * cell], "big")
            content[place : place + 4] = content[start + 8 : start + 12]
    path.write_bytes(content)
    started = time.process_time()
    code, _, errors = bad_values.run(["profile", str(path), "--no-store"])
    assert time.process_time() - started < 20
    assert code in (0, 2), errors
    assert b"internal error" not in errors


def test_what_lies_beside_is_neither_read_nor_written(report: Path) -> None:
    """A log of changes beside the file would be played into it; it is told, and left alone."""
    folder = report.parent
    database = sqlite3.connect(report)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("UPDATE operations SET name = 'ttnn.not_yet'")
    database.commit()
    for file in ("db.sqlite", "db.sqlite-wal", "db.sqlite-shm"):
        shutil.copy(folder / file, folder / f"copy-{file}")
    database.close()
    for file in ("db.sqlite", "db.sqlite-wal", "db.sqlite-shm"):
        (folder / f"copy-{file}").replace(folder / file)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    profile = ttmem.read(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert any("db.sqlite-wal" in warning for warning in profile.source.warnings)


def test_a_journal_with_a_trigger_is_not_written_to(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text(bad_values.CASES)
    results = tmp_path / "results"
    assert bad_values.run(["sweep", "run", str(cases), "-o", str(results), "-q"])[0] == 0
    change(results / "journal.sqlite", "CREATE TRIGGER t AFTER INSERT ON facts BEGIN DELETE FROM results; END")
    code, _, errors = bad_values.run(["sweep", "run", str(cases), "-o", str(results), "-q"])
    assert (code, b"holds the trigger 't'" in errors) == (2, True), errors
    change(
        results / "journal.sqlite",
        "DROP TRIGGER t",
        "DROP TABLE results",
        f"CREATE VIEW results AS {ENDLESS} SELECT i FROM n",
    )
    code, _, errors = bad_values.run(["sweep", "report", str(results), "-o", str(tmp_path / "out")])
    assert (code, b"internal error" in errors) == (2, False), errors
