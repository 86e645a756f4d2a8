# SPDX-License-Identifier: Apache-2.0
"""The mock's answers to many cases, kept in one SQLite file: the library is asked once per question and release."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from ttmem.engines.engine import EngineSettings
from ttmem.engines.interpreters import PINNED_TTNN, locate_managed_python
from ttmem.engines.ttnn import TtnnEngine
from ttmem.failures.outcome import Outcome

_LOT = 64
RESULT_KEYS = (
    "shape",
    "padded",
    "dtype",
    "layout",
    "memory",
    "page_bytes",
    "pages",
    "aligned_page_bytes",
    "address",
)


@dataclass(frozen=True)
class Question:
    """Steps on an empty board."""

    board: str
    steps: Sequence[Mapping[str, Any]]
    l1_small_bytes: int
    release: str = PINNED_TTNN

    @cached_property
    def key(self) -> str:
        text = json.dumps([self.release, self.board, self.l1_small_bytes, list(self.steps)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class Answers:
    """What is known, and a way to learn the rest. Several processes may use one file."""

    def __init__(self, path: Path, *, is_measured: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path, timeout=120, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, is_measured INTEGER, outcome TEXT)"
        )
        self._wants_measured = is_measured

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def find(self, question: Question) -> tuple[Outcome | None, bool]:
        """The mock's outcome, and whether its static buffers were measured."""
        found = self._database.execute(
            "SELECT outcome, is_measured FROM answers WHERE key = ?", [question.key]
        ).fetchone()
        if not found:
            return None, False
        kept = json.loads(found[0])
        return Outcome(**{name: value for name, value in kept.items() if name in Outcome._fields}), bool(found[1])

    def ask(self, questions: Sequence[Question]) -> None:
        """Whatever is not known yet; each lot of answers is kept as it comes."""
        known = {
            key
            for key, is_measured in self._database.execute("SELECT key, is_measured FROM answers")
            if is_measured or not self._wants_measured
        }
        missing = {question.key: question for question in questions if question.key not in known}
        done, started = 0, time.monotonic()
        alike = attrgetter("release", "board", "l1_small_bytes")
        for (release, board, small), group in groupby(sorted(missing.values(), key=alike), key=alike):
            # The pinned one is looked for everywhere, others are where 'ttmem device install' puts them.
            python = None if release == PINNED_TTNN else str(locate_managed_python(release))
            settings = EngineSettings(
                board=board, python=python, l1_small_bytes=small, measure_programs=self._wants_measured
            )
            left = list(group)
            with TtnnEngine(settings) as engine:
                for first in range(0, len(left), _LOT):
                    lot = left[first : first + _LOT]
                    outcomes = engine.ask_all([list(question.steps) for question in lot], stop=True)
                    self._keep([(question.key, next(outcomes)) for question in lot])
                    done += len(lot)
                    rate = done / (time.monotonic() - started)
                    print(
                        f"mock {board}, ttnn {release}: {done}/{len(missing)} ({rate:.0f}/s)",
                        file=sys.stderr,
                        flush=True,
                    )

    def _keep(self, found: Sequence[tuple[str, Outcome]]) -> None:
        lines = [(key, self._wants_measured, json.dumps(_plain(outcome))) for key, outcome in found]
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", lines)
        self._database.execute("COMMIT")


def _plain(outcome: Outcome) -> dict[str, Any]:
    kept = outcome._asdict()
    kept["answers"] = [
        {"ok": answer["ok"], "results": [{name: one[name] for name in RESULT_KEYS} for one in answer["results"]]}
        if "results" in answer
        else {"ok": answer["ok"]}
        for answer in outcome.answers
    ]
    kept["message"] = re.sub(r"\s+", " ", outcome.message)[:500]
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in kept.items()}
