# SPDX-License-Identifier: Apache-2.0
"""A worker of a Dask cluster that is killed: all answers come, and one note reports it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ttmem import TtmemError
from ttmem.commands.program import main
from ttmem.engines.interpreters import Interpreter
from ttmem.operators.case import Case, CaseTensor, write_cases
from ttmem.operators.sweeps.journal import read_results

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

SCRIPT = """\
import time
import ttnn

device = ttnn.open_device(device_id=0)
x = ttnn.ones((64, 64), layout=ttnn.TILE_LAYOUT, device=device)
open("running", "a").write("x")
time.sleep(2)
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two workers, each a process that a nanny starts again."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as started:
        yield started


@contextmanager
def killing(cluster: Any, *, when: Callable[[], bool]) -> Iterator[None]:
    """Kill a worker as soon as that is so."""
    over = threading.Event()

    def kill() -> None:
        while not over.is_set():
            if when():
                os.kill(cluster.workers[0].process.pid, signal.SIGKILL)
                return
            time.sleep(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def has_results(folder: Path) -> bool:
    try:
        return bool(read_results(folder)[0])
    except (TtmemError, OSError):
        return False


def note_in(err: str) -> str:
    (found,) = [line for line in err.splitlines() if "lost" in line]
    return found


def test_a_sweep_reports_a_worker_that_was_killed(
    cluster: Any, with_ttnn: Interpreter, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = [(1, 4, 64 * n, 64 * m) for n in range(1, 15) for m in range(1, 15)]
    write_cases(Path("cases.jsonl"), [Case("silu", (CaseTensor(shape),)) for shape in shapes])
    words = ["--engine", "mock", "--scheduler", cluster.scheduler_address, "-o", "results"]

    with killing(cluster, when=lambda: has_results(Path("results"))):
        assert main(["sweep", "run", "cases.jsonl", *words]) == 0

    assert len(read_results(Path("results"))[0]) == 2 * len(shapes)
    note = note_in(capsys.readouterr().err)
    assert note.startswith("a worker was lost; cases that were repeated on another: ")
    assert 0 < int(note.rpartition(" ")[2]) <= 2 * len(shapes)


def test_a_sweep_without_a_loss_has_no_note(
    cluster: Any, with_ttnn: Interpreter, capsys: pytest.CaptureFixture[str]
) -> None:
    write_cases(Path("cases.jsonl"), [Case("silu", (CaseTensor((1, 4, 64, 64)),))])
    assert main(["sweep", "run", "cases.jsonl", "--scheduler", cluster.scheduler_address, "-o", "results"]) == 0
    assert "lost" not in capsys.readouterr().err


def test_a_list_reports_a_worker_that_was_killed(
    cluster: Any, with_ttnn: Interpreter, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("one.py").write_text(SCRIPT)
    Path("two.py").write_text(SCRIPT)
    here = Path.cwd()
    Path("models.txt").write_text(f"{here}/one.py\n{here}/two.py\n")
    words = ["fit", "--list", "models.txt", "--scheduler", cluster.scheduler_address, "-o", "atlas"]

    with killing(cluster, when=lambda: any(len(one.read_text()) > 0 for one in here.glob("**/running"))):
        assert main(words) == 0

    shown = capsys.readouterr()
    assert "lost" not in shown.out
    assert note_in(shown.err) == "a worker was lost; cases that were repeated on another: 1"
