# SPDX-License-Identifier: Apache-2.0
"""Predict many models on many boards: one table, extended step by step.

Each answer is written to the folder's journal at once, so a second call computes only what is missing
(or for models whose file has changed since). A model that cannot be traced or played is a row with its reason.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import msgspec

from ttmem._version import __version__
from ttmem.analysis.failure import failure
from ttmem.analysis.peaks import Peak, peaks
from ttmem.base.atomic_files import name_full_disk
from ttmem.base.errors import BadInputError, TtmemError
from ttmem.base.limits import DOCUMENT_BYTES
from ttmem.base.text_files import read_bytes
from ttmem.operators.sweeps.distribute import Remark, as_finished, connect
from ttmem.operators.sweeps.journal import lock_folder
from ttmem.operators.tracing import keep_tracer
from ttmem.prediction import run_stream
from ttmem.prediction.request import Demand, Prediction, Request, find_demands
from ttmem.prediction.targets import build_stream, is_script
from ttmem.prediction.warm import keep_warm, release_warm, use_warm

JOURNAL = "journal.jsonl"
_MOST_IN_LOT = 4
Progress = Callable[[int, int, "MatrixRow"], None]


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A line of a list: a target and its options."""

    text: str
    """The line; names the row."""
    request: Request

    def key(self, board: str) -> str:
        """Return a key that identifies the question; an answer in the journal with it is reused."""
        request = self.request
        files = [Path(name.partition("::")[0]) for name in (request.target, request.inputs, request.recipe)]
        changed = [file.stat().st_mtime_ns if file.is_file() else 0 for file in files]
        asked = asdict(replace(request, board=board, torch_python=None))
        return json.dumps([self.text, asked, changed, __version__], sort_keys=True, default=str)


Question = tuple[ListedModel, str]
"""A model and a board."""


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """The answer for one model on one board."""

    model: str
    board: str
    fits: bool | None
    """None: no answer; see ``reason``."""
    engine: str = ""
    dram_peak_percent: float | None = None
    """Percentage of a bank; over 100 if something did not fit."""
    dram_peak_bytes_per_bank: int | None = None
    l1_peak_percent: float | None = None
    weights_bytes: int | None = None
    """Per chip, like the next two."""
    kv_cache_bytes: int | None = None
    activations_peak_bytes: int | None = None
    exact: int | None = None
    bounded: int | None = None
    unknown: int | None = None
    """Number of operations by certainty."""
    failure: str = ""
    """Class and operation of the first failure."""
    failed_memory: str = ""
    """The memory of the first failure; empty when nothing failed or the failure names none."""
    reason: str = ""
    seconds: float = 0.0


def predict_row(model: ListedModel, board: str) -> MatrixRow:
    """Compute one row."""
    began = time.perf_counter()
    request = replace(model.request, board=board)
    try:
        row = _build_row(
            model.text,
            board,
            run_stream.predict_script(request) if is_script(request.target) else _predict_stream(request),
        )
    except TtmemError as error:
        row = MatrixRow(model.text, board, None, reason=f"{error}")
    except Exception as error:  # one model of hundreds must not end the others
        row = MatrixRow(model.text, board, None, reason=f"{type(error).__name__}: {error}"[:300])
    return replace(row, seconds=round(time.perf_counter() - began, 1))


def _predict_stream(request: Request) -> Prediction:
    with use_warm() as opened:
        with keep_tracer(opened.tracers):
            stream = build_stream(request)
        return run_stream.predict_stream(stream, request, opened.engine(request))


def predict_lot(run: str, lot: Sequence[Question]) -> list[MatrixRow]:
    """Compute some rows on a worker of a cluster; its engines stay open for the run's next lot."""
    with keep_warm(run):
        return [predict_row(*question) for question in lot]


def _build_row(text: str, board: str, found: Prediction) -> MatrixRow:
    seen: dict[str, Peak] | dict[str, Demand] = peaks(found.profile) if found.fits else find_demands(found)
    failed = None if found.fits else failure(found.profile)
    dram, l1 = seen.get("DRAM"), seen.get("L1")
    return MatrixRow(
        text,
        board,
        found.fits,
        found.engine,
        dram_peak_percent=_percent(dram.peak_bytes_per_bank, dram.bytes_per_bank) if dram else None,
        dram_peak_bytes_per_bank=dram.peak_bytes_per_bank if dram else None,
        l1_peak_percent=_percent(l1.peak_bytes_per_bank, l1.bytes_per_bank) if l1 else None,
        weights_bytes=found.weights_bytes,
        kv_cache_bytes=found.kv_cache_bytes,
        activations_peak_bytes=found.activations_peak_bytes,
        exact=found.operations.exact,
        bounded=found.operations.bounded,
        unknown=found.operations.unknown,
        failure=f"{failed.failure_class} {failed.operation_name}".strip() if failed else "",
        failed_memory=failed.memory or "" if failed else "",
    )


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 2) if whole else None


def make_matrix(
    models: Sequence[ListedModel],
    boards: Sequence[str],
    folder: Path,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
    remark: Remark | None = None,
) -> list[MatrixRow]:
    """Return all rows in the order of the list; those in the folder are not computed again."""
    asked = [(model, board) for model in models for board in boards]
    with lock_folder(folder, "atlas"), _open_journal(folder) as (known, file):
        questions = {model.key(board): (model, board) for model, board in asked}  # equal lines are one question
        missing = [question for key, question in questions.items() if key not in known]
        done = len(questions) - len(missing)
        for model, board, row in _predict_missing(missing, workers, scheduler, remark):
            key = model.key(board)
            known[key] = row
            file.write(json.dumps({"key": key, "row": asdict(row)}) + "\n")
            file.flush()
            os.fsync(file.fileno())
            done += 1
            if progress:
                progress(done, len(questions), row)
        return [known[model.key(board)] for model, board in asked]


def _predict_missing(
    missing: Sequence[Question], workers: int, scheduler: str | None, remark: Remark | None
) -> Iterator[tuple[ListedModel, str, MatrixRow]]:
    """Yield answers as they arrive, from threads (tracing and the library run in child processes) or a cluster."""
    if scheduler is None:
        yield from _predict_in_threads(missing, workers)
        return
    run = uuid.uuid4().hex
    with connect(scheduler, "an atlas") as client:
        try:
            asked = [(run, lot) for lot in _split_into_lots(missing, sum(client.nthreads().values()))]
            sizes = [len(lot) for _, lot in asked]
            for (_, lot), rows, error in as_finished(client, predict_lot, asked, sizes, remark):
                for number, (model, board) in enumerate(lot):
                    lost = MatrixRow(model.text, board, None, reason=f"{type(error).__name__}: {error}"[:300])
                    yield model, board, rows[number] if error is None else lost
        finally:
            with suppress(Exception):  # a lost cluster has nothing to release
                client.run(release_warm, run)


def _predict_in_threads(missing: Sequence[Question], workers: int) -> Iterator[tuple[ListedModel, str, MatrixRow]]:
    left = deque(_split_into_lots(missing, workers))
    rows: SimpleQueue[tuple[ListedModel, str, MatrixRow] | None] = SimpleQueue()

    def work() -> None:
        try:
            with use_warm():
                while left:
                    for model, board in _take_lot(left):
                        rows.put((model, board, predict_row(model, board)))
        finally:
            rows.put(None)

    with ThreadPoolExecutor(workers) as pool:
        busy = [pool.submit(work) for _ in range(workers)]
        try:
            for _ in busy:
                while (row := rows.get()) is not None:
                    yield row
            for one in busy:
                one.result()
        finally:
            left.clear()


def _take_lot(lots: deque[list[Question]]) -> list[Question]:
    with suppress(IndexError):  # another thread took the last one
        return lots.popleft()
    return []


def _split_into_lots(questions: Sequence[Question], workers: int) -> list[list[Question]]:
    """Group the boards of a model: its trace is reused for all of them."""
    most = max(1, min(_MOST_IN_LOT, len(questions) // max(workers, 1)))
    lots: list[list[Question]] = []
    for model, board in questions:
        if not lots or lots[-1][0][0] is not model or len(lots[-1]) == most:
            lots.append([])
        lots[-1].append((model, board))
    return lots


@contextmanager
def _open_journal(folder: Path) -> Iterator[tuple[dict[str, MatrixRow], IO[str]]]:
    """Open the journal: known rows, and the file to append to; an incomplete last line is cut off."""
    path = folder / JOURNAL
    known: dict[str, MatrixRow] = {}
    told_bytes = read_bytes(path, most=DOCUMENT_BYTES, what="a journal") if path.exists() else b""
    whole = told_bytes[: told_bytes.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            told: dict[str, Any] = json.loads(line)
            known[str(told["key"])] = msgspec.convert(told["row"], MatrixRow)
        except (ValueError, KeyError, TypeError):
            where = f"{path}:{number}"
            raise BadInputError("is no journal of an atlas", where=where, hint="name a new folder") from None
    with name_full_disk(path), path.open("a", encoding="utf-8") as file:
        file.truncate(len(whole))
        yield known, file
