# SPDX-License-Identifier: Apache-2.0
"""The journal of a sweep: an SQLite file in WAL mode. It is the truth; ``results.jsonl`` is written from it.

A result is committed as soon as it is known, so a process that is killed loses the cases in flight and no more, and
the next call goes on with what is missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ttmem.base.atomic_files import write_bytes
from ttmem.base.errors import BadInputError
from ttmem.operators.case import Case, case_from_json
from ttmem.operators.sweeps.plan import Point, SweepPlan, fingerprint
from ttmem.operators.sweeps.result import Result, json_lines
from ttmem.readers.sqlite_tables import open_tables

JOURNAL, RESULTS, _LOCK = "journal.sqlite", "results.jsonl", ".lock"
_PLACE_PROBLEMS = ("disk is full", "disk I/O error", "readonly database", "unable to open")
"""What SQLite says when it cannot write, whatever is in the file."""
SCHEMA = "ttmem.sweep/1"
_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cases (
    id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, told TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS points (
    position INTEGER PRIMARY KEY, id TEXT NOT NULL, board TEXT NOT NULL, memory TEXT NOT NULL, layout TEXT NOT NULL,
    UNIQUE (id, board, memory, layout));
CREATE TABLE IF NOT EXISTS results (
    position INTEGER PRIMARY KEY, status TEXT NOT NULL, told TEXT NOT NULL);
"""


_json = json.JSONEncoder(separators=(",", ":")).encode


class Journal:
    """A folder of results. Only one process may write at a time."""

    def __init__(self, folder: Path) -> None:
        """Open or make the journal of a folder."""
        self.folder = folder
        self._lock = _lock(folder)
        self._is_new = not (folder / JOURNAL).exists()
        """Nothing of it is worth keeping until its plan is in it."""
        self._positions: dict[tuple[str, ...], int] = {}
        self._database = sqlite3.connect(":memory:")  # until the file is open
        try:
            with self._explain():
                path = folder / JOURNAL
                self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
                self._refuse_programs()
                self._database.execute("PRAGMA journal_mode = WAL")
                self._database.execute("PRAGMA synchronous = NORMAL")
                self._database.executescript(_TABLES)
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def _explain(self) -> Iterator[None]:
        """Report an error of SQLite in the user's words."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self._problem(error) from None

    def _problem(self, error: Exception) -> BadInputError:
        where = str(self.folder / JOURNAL)
        if isinstance(error, sqlite3.OperationalError) and any(text in str(error) for text in _PLACE_PROBLEMS):
            hint = "make room there and run it again: a sweep continues where it stopped"
            return BadInputError(f"cannot be written: {error}", where=where, hint=hint)
        return BadInputError(f"is no journal of a sweep: {error}", where=where, hint="name a new folder")

    def _refuse_programs(self) -> None:
        """Refuse a foreign file: writing would run its triggers."""
        kinds = self._database.execute("SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index')")
        if found := kinds.fetchone():
            raise sqlite3.DatabaseError(f"it holds the {found[0]} '{found[1]}'")

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Everything is in one file afterwards."""
        with contextlib.suppress(sqlite3.Error):
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._database.close()
        if self._is_new:
            for suffix in ("", "-wal", "-shm"):
                (self.folder / f"{JOURNAL}{suffix}").unlink(missing_ok=True)
            (self.folder / _LOCK).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # other files are in it
                self.folder.rmdir()
        os.close(self._lock)

    def begin(self, plan: SweepPlan, **facts: Any) -> list[Point]:
        """Note the plan and give the points that have no result yet; a journal of another sweep is refused."""
        try:
            missing = self._begin(plan, facts)
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            raise self._problem(error) from None
        self._is_new = False
        return missing

    def _begin(self, plan: SweepPlan, facts: Mapping[str, Any]) -> list[Point]:
        known = dict(self._database.execute("SELECT name, value FROM facts"))
        wanted = {"schema": SCHEMA, "settings": json.dumps(plan.settings.identity, sort_keys=True)}
        for name, value in wanted.items():
            if name in known and known[name] != value:
                raise BadInputError(
                    f"the journal there has other {name}: {known[name]}",
                    where=str(self.folder),
                    hint="give each sweep a folder of its own, or the options that this one was begun with",
                )
        cases = {point.case.id: point.case for point in plan.points}
        with self._transaction():
            self._keep_cases(cases.values())
            first = self._database.execute("SELECT COALESCE(MAX(position), -1) + 1 FROM points").fetchone()[0]
            planned = self._database.execute("SELECT position, id, board, memory, layout FROM points")
            self._positions = {tuple(key): position for position, *key in planned}
            missing = [point.place for point in plan.points if point.place not in self._positions]
            new: dict[tuple[str, ...], int] = {place: first + number for number, place in enumerate(missing)}
            self._database.executemany(
                "INSERT INTO points VALUES (?, ?, ?, ?, ?)", ((position, *place) for place, position in new.items())
            )
            self._positions |= new
            self._note(wanted)
            self.note(**facts)
        done = {position for (position,) in self._database.execute("SELECT position FROM results")}
        return [point for point in plan.points if self._positions[point.place] not in done]

    def add(self, results: Iterable[Result]) -> None:
        """Commit results. A point that has one already keeps it."""
        lines = [(self._positions[one.place], one.status, _json(one.to_json())) for one in results]
        with self._explain(), self._transaction():
            self._database.executemany("INSERT OR IGNORE INTO results VALUES (?, ?, ?)", lines)

    def note(self, **facts: Any) -> None:
        """Keep facts that are known only later, such as the library's version."""
        with self._explain():
            self._note({name: json.dumps(value) for name, value in facts.items()})

    def _note(self, facts: Mapping[str, str]) -> None:
        self._database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def write_results(self) -> Path:
        """``results.jsonl``, whole or not at all."""
        place = self.folder / RESULTS
        with self._explain():
            lines = [f"{line}\n" for (line,) in self._database.execute("SELECT told FROM results ORDER BY position")]
        write_bytes(place, "".join(lines).encode("utf-8", "replace"))
        return place

    def _keep_cases(self, cases: Iterable[Case]) -> None:
        known = dict(self._database.execute("SELECT id, fingerprint FROM cases"))
        for case in cases:
            mark = fingerprint(case)
            if known.get(case.id, mark) != mark:
                raise BadInputError(
                    f"the journal has another case under the id '{case.id}'",
                    where=str(self.folder),
                    hint="give each sweep a folder of its own",
                )
            if case.id not in known:
                self._database.execute("INSERT INTO cases VALUES (?, ?, ?)", (case.id, mark, _json(case.to_json())))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # SQLite has done so itself when the disk is full
                self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")


def _lock(folder: Path, what: str = "sweep") -> int:
    """Two sweeps into one folder would ask everything twice; the lock ends with the process, however it ends."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BadInputError("is a file; results need a folder", where=str(folder), hint="name a new folder") from None
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise BadInputError(
            f"another {what} is writing there", where=str(folder), hint="wait for it, or name another folder"
        ) from None
    return descriptor


@contextlib.contextmanager
def lock_folder(folder: Path, what: str) -> Iterator[None]:
    """Create and lock a folder of results, so that no other process writes to it."""
    descriptor = _lock(folder, what)
    try:
        yield
    finally:
        os.close(descriptor)


def read_results(place: Path) -> tuple[list[Result], dict[str, Case], dict[str, Any]]:
    """Results, cases and facts of a results folder, its journal, or a ``results.jsonl`` alone (then without cases)."""
    folder = place if place.is_dir() else place.parent
    if (place.is_dir() or place.name == JOURNAL) and (folder / JOURNAL).is_file():
        return _read_journal(folder / JOURNAL)
    file = place / RESULTS if place.is_dir() else place
    return [Result.from_json(line, where=where) for where, line in json_lines(file, "result")], {}, {}


def _read_journal(file: Path) -> tuple[list[Result], dict[str, Case], dict[str, Any]]:
    """Read a running sweep: WAL lets readers see what is committed."""
    try:
        with open_tables(file, immutable=False) as database:
            results = [
                Result.from_json(json.loads(line), where=str(file))
                for (line,) in database.execute("SELECT told FROM results ORDER BY position")
            ]
            cases = {i: case_from_json(json.loads(case)) for i, case in database.execute("SELECT id, told FROM cases")}
            raw = dict(database.execute("SELECT name, value FROM facts"))
            planned = database.execute("SELECT COUNT(*) FROM points").fetchone()[0]
        facts = {name: value if name == "schema" else json.loads(value) for name, value in raw.items()}
    except (sqlite3.Error, ValueError, TypeError, RecursionError) as error:
        raise BadInputError(f"is no journal of a sweep: {error}", where=str(file)) from None
    if not isinstance(facts.setdefault("settings", {}), dict):
        raise BadInputError("is no journal of a sweep: its settings are damaged", where=str(file))
    return results, cases, {**facts, "planned": planned}


def is_results(place: Path) -> bool:
    """Return True if a place holds results of ttmem's sweeps."""
    if place.is_dir():
        return (place / JOURNAL).is_file() or (place / RESULTS).is_file()
    return place.name == JOURNAL or (place.suffix == ".jsonl" and place.is_file())
