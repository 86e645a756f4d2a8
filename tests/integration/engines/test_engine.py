# SPDX-License-Identifier: Apache-2.0
"""The engine: every kind of outcome provoked, and nothing that happens to a case reaches the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from integration.engines.operator_cells import alloc, call, t
from ttmem import TtmemError
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.ttnn import EngineSettings, TtnnEngine
from ttmem.failures.outcome import Outcome
from ttmem.twin.operations import RECORDS

pytestmark = pytest.mark.oracle

SMALL = [1, 1, 64, 64]
SQUARE = [1, 1, 1024, 1024]
TRACE_SEGFAULT = [
    alloc("a", SMALL, "D"),
    call("silu", t("a")),
    call("begin_trace_capture", {"device": True}, cq_id=0),
    call("silu", t("a")),
]
HEALTHY = [alloc("a", SMALL, "D"), call("add", t("a"), t("a"))]


def ask(engine: Callable[..., TtnnEngine], *steps: dict[str, Any]) -> Outcome:
    return engine(l1_small_bytes=32768).ask(list(steps), stop=True)


def test_a_pass_tells_peaks_and_what_was_made(engine: Callable[..., TtnnEngine]) -> None:
    outcome = ask(engine, alloc("a", SQUARE, "D"), call("matmul", t("a"), t("a")))
    assert (outcome.status, outcome.failure_class, outcome.message) == ("pass", "", "")
    assert outcome.peak_bytes_per_bank == {"DRAM": 2 * 176128, "L1": 0, "L1_SMALL": 0, "TRACE": 0}
    made = outcome.answers[-1]["results"][0]
    assert (made["shape"], made["memory"], made["address"]) == (SQUARE, "DRAM", 1048640 + 176128)


def test_peaks_count_temporaries(engine: Callable[..., TtnnEngine]) -> None:
    # mean over channels pads 4 rows to 32: two temporaries of 8 times the input
    outcome = ask(engine, alloc("a", [1, 4, 1024, 1024], "D"), call("mean", t("a"), dim=1, keepdim=True))
    after = outcome.answers[-1]["results"][0]["pages"] * 2048 / 12
    assert outcome.peak_bytes_per_bank["DRAM"] == 700416 + 11186176
    assert after < 200_000


def test_dram_out_of_memory(engine: Callable[..., TtnnEngine]) -> None:
    outcome = ask(engine, alloc("a", [1, 1, 1 << 17, 1 << 17], "D"))
    assert (outcome.status, outcome.failure_class, outcome.memory) == ("oom", "oom/too-big", "DRAM")
    assert (outcome.needed_bytes, outcome.bytes_per_bank) == (34359738368, 2863312896)


def test_l1_out_of_memory_inside_an_operation(engine: Callable[..., TtnnEngine]) -> None:
    half = [1, 1, 2048, 32 * 360]
    outcome = ask(engine, alloc("a", half, "L"), call("add", t("a"), t("a")))
    assert (outcome.status, outcome.failure_class, outcome.memory) == ("oom", "oom/capacity", "L1")
    assert outcome.bytes_per_bank == 360 * 2048


def test_circular_buffers_that_clash(engine: Callable[..., TtnnEngine]) -> None:
    filled = alloc("f", [2048, 32 * 663], "L")
    outcome = ask(engine, alloc("a", SQUARE, "D"), filled, call("add", t("a"), t("a")))
    assert (outcome.status, outcome.failure_class) == ("clash", "buffers/clash")
    assert "circular buffers" in outcome.message


def test_dataflow_buffers_that_clash(engine: Callable[..., TtnnEngine]) -> None:
    filled = alloc("f", [2048, 32 * 663], "L")
    outcome = ask(engine, alloc("a", SQUARE, "D"), filled, call("silu", t("a")))
    assert (outcome.status, outcome.failure_class) == ("clash", "buffers/clash")
    assert "dataflow buffers" in outcome.message


def test_circular_buffers_beyond_a_core(engine: Callable[..., TtnnEngine]) -> None:
    grid = {"new": "ttnn.CoreGrid", "kwargs": {"y": 1, "x": 1}}
    norm = call("group_norm", t("a"), num_groups=32, core_grid=grid, inplace=False)
    outcome = ask(engine, alloc("a", [1, 1, 65536, 320], "D"), norm)
    assert (outcome.status, outcome.failure_class) == ("overflow", "buffers/overflow")
    assert "circular buffers" in outcome.message


def test_dataflow_buffers_beyond_a_core(engine: Callable[..., TtnnEngine]) -> None:
    config = {
        "new": "ttnn.MatmulMultiCoreReuseMultiCastProgramConfig",
        "kwargs": {
            "compute_with_storage_grid_size": {"tuple": [8, 8]},
            "in0_block_w": 64,
            "out_subblock_h": 1,
            "out_subblock_w": 1,
            "per_core_M": 8,
            "per_core_N": 8,
            "transpose_mcast": False,
            "fused_activation": None,
        },
    }
    shape = [1, 1, 2048, 2048]
    product = call("matmul", t("a"), t("b"), program_config=config)
    outcome = ask(engine, alloc("a", shape, "D"), alloc("b", shape, "D"), product)
    assert (outcome.status, outcome.failure_class) == ("overflow", "buffers/overflow"), outcome
    assert "dataflow buffers" in outcome.message


@pytest.mark.parametrize(
    ("steps", "status", "message"),
    [
        ([alloc("a", SMALL, "d"), call("matmul", t("a"), t("a"))], "invalid", "Inputs to matmul must be tilized"),
        ([call("add", 3)], "invalid", "incompatible function arguments"),
        ([call("no_such_operation")], "unsupported", "no_such_operation"),
        ([call("_ttnn.anything")], "unsupported", "not public"),
        ([{"frobnicate": 1}], "invalid", "unknown step"),
    ],
)
def test_refusals(engine: Callable[..., TtnnEngine], steps: list[dict[str, Any]], status: str, message: str) -> None:
    outcome = ask(engine, *steps)
    assert outcome.status == status
    assert message in outcome.message


def test_a_tensor_whose_pages_would_wrap_is_out_of_memory_and_not_a_fit(engine: Callable[..., TtnnEngine]) -> None:
    # GIVEN 2^32 tiles, which the library counts as none
    outcome = ask(engine, alloc("a", [1 << 21, 1 << 21], "D"))
    # THEN we say what it really needs
    assert (outcome.status, outcome.failure_class) == ("oom", "oom/too-big")
    assert outcome.needed_bytes == (1 << 42) * 2


def test_a_trace_region_that_wraps_the_bank_is_refused(with_ttnn: Interpreter) -> None:
    with pytest.raises(TtmemError, match="larger than DRAM"), TtnnEngine(trace_region_bytes=20_000_000_000):
        pass


def test_a_segfault_is_the_outcome_of_its_case_alone(engine: Callable[..., TtnnEngine]) -> None:
    worker = engine(l1_small_bytes=32768)
    # WHEN the middle one of three cases crashes the library
    outcomes = list(worker.ask_all([HEALTHY, TRACE_SEGFAULT, HEALTHY]))
    # THEN the others do not notice, and the worker is the same
    assert [outcome.status for outcome in outcomes] == ["pass", "crash", "pass"]
    assert "SIGSEGV" in outcomes[1].message
    assert [answer["ok"] for answer in outcomes[1].answers] == [True, True, True]
    assert worker.replaced == 0


def test_a_case_that_hangs_is_ended(engine: Callable[..., TtnnEngine]) -> None:
    endless = {"host": "h", "shape": [1 << 14, 1 << 14], "dtype": "float32"}
    worker = engine(l1_small_bytes=32768)
    (outcome,) = worker.ask_all([[endless]], timeout=0.3)
    assert (outcome.status, worker.ask(HEALTHY).status) == ("timeout", "pass")  # on a busy machine it takes longer


def test_a_case_that_eats_the_hosts_memory_is_stopped(with_ttnn: Interpreter) -> None:
    with TtnnEngine(memory_cap_bytes=500_000_000) as worker:
        greedy = {"host": "h", "shape": [1 << 13, 1 << 13], "dtype": "float32"}
        outcomes = list(worker.ask_all([[greedy], HEALTHY]))
    assert outcomes[0].status in ("error", "crash"), outcomes[0]
    assert outcomes[1].status == "pass"


def test_a_killed_worker_is_replaced(with_ttnn: Interpreter) -> None:
    with TtnnEngine() as worker:
        first = worker.process
        assert first is not None
        assert worker.ask(HEALTHY).ok
        # WHEN somebody kills the worker in the middle of a case
        threading.Timer(0.3, os.kill, (first, signal.SIGKILL)).start()
        slow = {"host": "h", "shape": [1 << 13, 1 << 13], "dtype": "float32"}
        outcomes = list(worker.ask_all([[slow, slow, slow], HEALTHY, HEALTHY]))
        # THEN that case has it as its outcome, and the next ones are answered by a new worker
        assert [outcome.status for outcome in outcomes] == ["crash", "pass", "pass"]
        assert "SIGKILL" in outcomes[0].message
        assert worker.replaced == 1
        assert worker.process != first


def test_copies_end_with_their_worker(with_ttnn: Interpreter) -> None:
    with TtnnEngine() as worker:
        first = worker.process
        assert first is not None
        slow = {"host": "h", "shape": [1 << 13, 1 << 13], "dtype": "float32"}
        asking = threading.Thread(target=worker.ask, args=([slow] * 20,))
        asking.start()
        copies = _wait_for(lambda: _children(first))
        os.kill(first, signal.SIGKILL)
        asking.join()
        assert _wait_for(lambda: not any(Path(f"/proc/{copy}").exists() for copy in copies))


def test_cases_find_the_device_as_the_first_one_did(engine: Callable[..., TtnnEngine]) -> None:
    # GIVEN a case that leaves a table behind in the program cache, and one that leaves tensors
    leaving = [alloc("a", [1, 16, 1024, 1024], "D"), call("reshape", t("a"), {"tuple": [65536, 256]})]
    probe = [{"view": "DRAM"}, alloc("a", SMALL, "D")]
    outcomes = list(engine(l1_small_bytes=32768).ask_all([probe, leaving, probe, [alloc("x", SQUARE, "L")], probe]))
    # THEN what they find is always the same
    seen = [outcomes[number].answers for number in (0, 2, 4)]
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][0]["allocated"] == 0


def test_without_isolation_the_device_keeps_what_was_done(with_ttnn: Interpreter) -> None:
    with TtnnEngine() as worker:
        worker.ask([alloc("kept", SQUARE, "D")], isolated=False)
        assert worker.ask([{"view": "DRAM"}]).answers[0]["allocated"] == 176128
        worker.ask([{"free": "kept"}], isolated=False)
        assert worker.ask([{"view": "DRAM"}]).answers[0]["allocated"] == 0


def test_two_boards_side_by_side(engine: Callable[..., TtnnEngine]) -> None:
    wormhole, blackhole = engine(board="n150"), engine(board="p150")
    assert wormhole.device["pools"]["DRAM"] == [12, 1048640, 1072693184]
    assert blackhole.device["pools"]["DRAM"] == [8, 1048704, 4277141376]
    for _ in range(2):
        assert wormhole.ask(HEALTHY).answers[0]["address"] == 1048640
        assert blackhole.ask(HEALTHY).answers[0]["address"] == 1048704


def test_eight_workers_at_once_share_a_cold_cache(ttnn_interpreter: Interpreter, tmp_path: Path) -> None:
    settings = EngineSettings(python=ttnn_interpreter.path)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(8) as pool:
        patch.setenv("TTMEM_HOME", str(tmp_path))

        def work(number: int) -> list[str]:
            with TtnnEngine(settings) as worker:
                sizes = ([1, 1, 64, 32 * (number + extra + 1)] for extra in range(3))
                cases = [[alloc("a", size, "D"), call("softmax", t("a"), dim=-1)] for size in sizes]
                return [outcome.status for outcome in worker.ask_all(cases)]

        assert list(pool.map(work, range(8))) == [["pass"] * 3] * 8


@pytest.mark.parametrize(("board", "mesh"), [("n300", (1, 2)), ("p300", (1, 2)), ("t3k", (1, 8))])
@pytest.mark.parametrize("name", ["all_gather", "reduce_scatter", "all_reduce"])
def test_chips_work_together_in_a_copy_too(
    engine: Callable[..., TtnnEngine], board: str, mesh: tuple[int, int], name: str
) -> None:
    # GIVEN an operation that has a program for each chip
    steps = [{**step, "shape": [1, 1, 64, 512]} if "alloc" in step else step for step in RECORDS.find(name).example]
    # WHEN it is asked of a copy of the process, then of the process itself
    isolated, plain = (engine(board=board, mesh=mesh).ask(steps, isolated=one, timeout=20.0) for one in (True, False))
    # THEN both come to the same end
    assert (isolated.status, isolated.peak_bytes_per_bank) == ("pass", plain.peak_bytes_per_bank)


def test_a_mesh_has_the_memory_map_of_one_chip(engine: Callable[..., TtnnEngine]) -> None:
    one, two = engine(board="n300"), engine(board="n300", mesh=(1, 2))
    assert one.device["pools"] == two.device["pools"]
    assert (one.device["chips"], two.device["chips"]) == (1, 2)
    # AND operations of the newer kind run on it, on the true grid
    outcome = two.ask([alloc("a", SQUARE, "D"), call("softmax", t("a"), dim=-1)])
    assert outcome.ok, outcome
    assert two.device["grid"] == [8, 8]


def test_nothing_is_left_behind(with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN an empty working directory and an empty folder for temporary files
    here, temporary = tmp_path / "here", tmp_path / "tmp"
    here.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = set(Path("/dev/shm").iterdir())
    # WHEN a worker works, crashes once and ends
    with TtnnEngine() as worker:
        pid = worker.process
        list(worker.ask_all([HEALTHY, TRACE_SEGFAULT, HEALTHY]))
    # THEN no process and no file of it is left
    assert not Path(f"/proc/{pid}").exists()
    assert list(here.iterdir()) == []
    assert list(temporary.iterdir()) == []
    ours = [path for path in set(Path("/dev/shm").iterdir()) - before if f"{pid}" in path.name]
    assert ours == []


def test_a_named_interpreter_without_ttnn_is_exit_3() -> None:
    import sys

    with pytest.raises(TtmemError) as raised:
        TtnnEngine(python=sys.executable if not _has_ttnn() else "/bin/false").start()
    assert raised.value.exit_code == 3
    assert "pip install ttnn==" in raised.value.hint


def _has_ttnn() -> bool:
    import importlib.util

    return importlib.util.find_spec("ttnn") is not None


def _children(process: int) -> list[int]:
    told = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True, check=False).stdout
    return [int(line) for line in told.split()]


def _wait_for(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    return condition()
