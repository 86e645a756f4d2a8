# SPDX-License-Identifier: Apache-2.0
"""``ttmem run``, ``ttmem test`` and ``ttmem device`` as a user meets them: exit codes, clean stdout, nothing left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.command_line import call, environment, start
from ttmem.engines.interpreters import Interpreter

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = """\
import sys
import ttnn
print("said by the script", sys.argv[1:])
device = ttnn.open_device(device_id=0)
x = ttnn.allocate_tensor_on_device(
    ttnn.Shape([64, 64]), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG)
y = ttnn.add(x, x)
"""
SUITE = """\
import numpy
import pytest
import ttnn


def make(device, *shape):
    return ttnn.allocate_tensor_on_device(
        ttnn.Shape(list(shape)), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG)


def test_compared(device):
    y = ttnn.matmul(x := make(device, 1024, 1024), x)
    values = numpy.array(y.cpu().to_list())
    assert numpy.allclose(values, values + 1)


def test_in_its_own_words(device):
    assert make(device, 32, 32).cpu().to_list()[0] == 5, "nobody knows"


def test_after_a_read(device):
    made = make(device, 32, 32).cpu()
    assert list(made.shape) == [64, 64]


def test_on_the_host(device):
    make(device, 32, 32)
    assert not numpy.allclose([0.0], [1.0])
    assert numpy.allclose([0.0], [1.0])


@pytest.mark.ttmem(max_l1="10%", max_dram="80%")
def test_too_much(device):
    ttnn.matmul(x := make(device, 1024, 1024), x)


@pytest.mark.ttmem(max_l1="90%", max_dram="1MiB")
def test_within(device):
    ttnn.add(x := make(device, 1024, 1024), x)


@pytest.mark.parametrize("device_params", [{"l1_small_size": 32768}], indirect=True)
def test_opened_as_asked(device):
    assert ttnn.get_memory_view(device, ttnn.BufferType.L1_SMALL).total_bytes_per_bank == 32768


@pytest.mark.parametrize("mesh_device", [(1, 2)], indirect=True)
def test_mesh(mesh_device):
    make(mesh_device, 64, 64)
    assert mesh_device.get_num_devices() == 2


def test_value(device):
    assert 0.0 == 1.0
"""


@pytest.fixture
def here(with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a script; reports go to a home of its own, kernels to the shared one."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "small.py").write_text(SMALL)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.oracle
class TestRun:
    def test_stdout_holds_the_answer_alone_and_the_words_go_where_they_belong(self, here: Path) -> None:
        done = call("run", "small.py", "--batch", "4", "--board", "n150", "--json", "--no-store", "--", "--json", "-x")
        assert done.code == 0
        document = json.loads(done.out)
        assert document["source"]["kind"] == "ttnn-capture"
        assert document["operations"]["by_name"] == {"ttnn.allocate_tensor_on_device": 1, "ttnn.add": 1}
        assert document["memories"]["DRAM"]["peak_bytes_per_bank"] == 4096
        assert "said by the script ['--batch', '4', '--json', '-x']" in done.err
        # AND nothing is left where the user is
        assert [path.name for path in here.iterdir()] == ["small.py"]

    def test_it_is_stored_like_any_other_and_can_be_compared(self, here: Path) -> None:
        assert call("run", "small.py", "--name", "first").code == 0
        assert call("run", "small.py", "--name", "second", "--llm").out.startswith("# Memory Profile: second")
        compared = call("diff", "first", "second", "--json")
        assert compared.code == 0
        assert json.loads(compared.out)["regression"] is False
        assert call("check", "first", "--max-dram", "1%").code == 0

    def test_files_and_short_options(self, here: Path) -> None:
        words = ("run", "small.py", "-seq", "--no-store", "-q", "--json", "-o", "answer.json", "--html", "report.html")
        done = call(*words, "--", "-o", "x")
        assert (done.code, done.out) == (0, "")
        assert done.err == "said by the script ['-seq', '-o', 'x']\n"
        assert json.loads((here / "answer.json").read_text())["name"] == "small"
        assert 'id="ttmem-report"' in (here / "report.html").read_text()

    @pytest.mark.parametrize(
        ("ending", "code"), [("sys.exit(7)", 7), ("ttnn.add(1)", 1), ("import os; os.abort()", 134)]
    )
    def test_the_status_is_the_scripts(self, here: Path, ending: str, code: int) -> None:
        (here / "ending.py").write_text(f"import sys, ttnn\n{ending}\n")
        assert call("run", "ending.py", "--no-store").code == code

    def test_an_interrupt_reaches_the_script(self, here: Path) -> None:
        (here / "slow.py").write_text("import ttnn, time\nprint('ready', flush=True)\ntime.sleep(60)\n")
        running = start("run", "slow.py", "--no-store", "--json", start_new_session=True)
        assert running.stderr is not None
        for line in running.stderr:
            if "ready" in line:
                break
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=60)
        assert running.returncode == 130
        assert json.loads(out)["name"] == "slow"


class TestOwnFailures:
    """125, as ``env`` and ``timeout`` do: every other status is the child's."""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["run", "missing.py"], "no such script"),
            (["run"], "Missing argument"),
            (["run", "a.py", "--timeout", "soon"], "--timeout"),
            (["run", "a.py", "--json", "--llm"], "choose one of"),
            (["test"], "Missing argument"),
        ],
    )
    def test_wrong_usage(self, tmp_path: Path, words: list[str], message: str) -> None:
        (tmp_path / "a.py").write_text("")
        done = call(*words, cwd=tmp_path)
        assert (done.code, done.out) == (125, "")
        assert message in done.err
        assert "Traceback" not in done.err

    def test_an_unknown_board(self, here: Path) -> None:
        done = call("run", "small.py", "--board", "n15o")
        assert done.code == 125
        assert "did you mean 'n150'" in done.err

    def test_no_ttnn_anywhere(self, tmp_path: Path) -> None:
        (tmp_path / "a.py").write_text("")
        bare = {**environment(), "TTMEM_HOME": str(tmp_path), "TTMEM_TTNN_PYTHON": "/bin/false"}
        for verb in (["run", "a.py"], ["test", "a.py"]):
            done = call(*verb, env=bare, cwd=tmp_path)
            assert done.code == 125
            assert "hint: " in done.err
        doctor = call("device", "doctor", "--json", env=bare)
        assert doctor.code == 1
        told = json.loads(doctor.out)
        assert told["works"] is False
        assert {"name", "state", "detail", "do"} == set(told["checks"][0])


@pytest.mark.oracle
class TestDevice:
    def test_info(self, here: Path, with_ttnn: Interpreter) -> None:
        told = json.loads(call("device", "info", "--json").out)
        assert told["interpreter"]["path"] == with_ttnn.path
        assert {"n150", "n300", "t3k", "galaxy", "p100", "p150", "p300"} <= set(told["boards"])
        assert with_ttnn.path in call("device", "info").out

    def test_doctor(self, here: Path) -> None:
        done = call("device", "doctor", "--board", "p150")
        assert done.code == 0
        assert "mock p150: opens and adds" in done.out


LOST = """
import os
import signal
import time

import pytest
import ttnn


@pytest.fixture(scope="module")
def shared():
    device = ttnn.open_device(device_id=0)
    yield device
    ttnn.close_device(device)


def ones(device):
    return ttnn.ones((1, 1, 64, 64), layout=ttnn.TILE_LAYOUT, device=device)


def test_first(shared):
    ttnn.relu(ones(shared))


def test_segmentation_fault(shared):
    ones(shared)
    os.kill(os.getpid(), signal.SIGSEGV)


def test_exit(shared):
    os._exit(3)


def test_hang(shared):
    time.sleep(1000)


def test_out_of_memory(shared):
    shape = ttnn.Shape([1, 1, 100000, 100000])
    ttnn.allocate_tensor_on_device(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, shared, ttnn.DRAM_MEMORY_CONFIG)


@pytest.fixture
def broken():
    raise RuntimeError("broken")


def test_broken_fixture(broken):
    pass


@pytest.mark.skip
def test_skipped():
    pass


def test_last(shared):
    ttnn.relu(ones(shared))
"""


@pytest.fixture
def suite(here: Path, with_ttnn: Interpreter) -> Path:
    if not with_ttnn.pytest_version:
        pytest.skip(f"THE PYTEST PLUGIN WAS NOT TRIED: no pytest beside ttnn in {with_ttnn.path}")
    (here / "test_suite.py").write_text(SUITE)
    return here


@pytest.mark.oracle
class TestSuites:
    def test_peaks_limits_and_skipped_comparisons(self, suite: Path) -> None:
        done = call("test", "test_suite.py", "-p", "no:cacheprovider", "--board", "n300", "--json")
        told = json.loads(done.out)
        assert (done.code, told["status"], told["board"]) == (1, 1, "n300")
        rows = {row["test"].partition("::")[2]: row for row in told["tests"]}
        assert {name: row["outcome"] for name, row in rows.items()} == {
            "test_compared": "passed",
            "test_too_much": "failed",
            "test_within": "passed",
            "test_opened_as_asked[device_params0]": "passed",
            "test_mesh[mesh_device0]": "passed",
            "test_value": "failed",
            "test_in_its_own_words": "passed",
            "test_after_a_read": "passed",
            "test_on_the_host": "failed",
        }
        counted = {name for name, row in rows.items() if row["skipped_comparisons"]}
        assert counted == {"test_compared", "test_in_its_own_words", "test_after_a_read"}
        assert rows["test_compared"]["dram_peak_bytes_per_bank"] == 2 * 176128
        assert rows["test_compared"]["l1_with_programs_bytes_per_core"] == 163840
        assert "test was limited to 10% of L1 (139331 B per bank) but used 163840 B (11.8%)" in done.err
        assert "a mock computes no values: 3 comparisons in 3 tests skipped, 2 tests ended" in done.err
        assert "recorder.py" not in done.err

    def test_a_test_that_does_not_come_back_costs_itself_alone(self, suite: Path) -> None:
        # GIVEN a segmentation fault, an exit, a hang and an out-of-memory among tests that share a device
        (suite / "test_lost.py").write_text(LOST)
        words = ("test", "test_lost.py", "-p", "no:cacheprovider", "--test-timeout", "4", "--json")
        done = call(*words)
        told = json.loads(done.out)
        rows = {row["id"].partition("::")[2]: row for row in told["tests"]}
        # THEN each is named, and all others ran
        assert {name: row["outcome"] for name, row in rows.items()} == {
            "test_first": "passed",
            "test_segmentation_fault": "crashed",
            "test_exit": "crashed",
            "test_hang": "timeout",
            "test_out_of_memory": "failed",
            "test_broken_fixture": "error",
            "test_skipped": "skipped",
            "test_last": "passed",
        }
        assert rows["test_segmentation_fault"]["failure"]["class"] == "crash"
        assert "SIGSEGV after ttnn.ones" in rows["test_segmentation_fault"]["failure"]["message"]
        assert rows["test_hang"]["failure"]["class"] == "timeout"
        full = rows["test_out_of_memory"]["failure"]
        assert (full["class"], full["memory"]) == ("oom/too-big", "DRAM")
        assert full["operation"]["name"] == "ttnn.allocate_tensor_on_device"
        assert rows["test_last"]["operations"] == 2
        assert (done.code, rows["test_last"]["unmeasured_programs"]) == (1, 0)
        # AND -x stops at the first of them
        assert "1 failed, 1 passed" in call(*words[:-1], "-x").out

    def test_values_may_be_kept(self, suite: Path) -> None:
        words = ("test", "test_suite.py", "-p", "no:cacheprovider", "-k", "compared", "--values", "--no-programs")
        assert call(*words).code == 1

    def test_the_output_is_pytests_own(self, suite: Path) -> None:
        done = call("test", "test_suite.py", "-p", "no:cacheprovider", "-k", "within", "-q")
        assert done.code == 0
        assert "peak memory per test (mock n150)" in done.out
        assert call("test", "no_such_folder", "-p", "no:cacheprovider").code == 4

    def test_without_the_option_the_plugin_does_nothing(self, suite: Path, with_ttnn: Interpreter) -> None:
        import ttmem

        (suite / "test_plain.py").write_text("import sys\ndef test_it(): assert 'ttnn' not in sys.modules\n")
        there = {**os.environ, "PYTHONPATH": str(Path(ttmem.__file__).parents[1])}
        command = [
            with_ttnn.path,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:ttmem",
            "-p",
            "ttmem.commands.pytest_plugin",
            "test_plain.py",
        ]
        done = subprocess.run(command, capture_output=True, text=True, env=there, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.oracle
def test_a_killed_ttmem_takes_its_worker_along(here: Path) -> None:
    (here / "slow.py").write_text("import os, ttnn, time\nprint('pid', os.getpid(), flush=True)\ntime.sleep(60)\n")
    running = start("run", "slow.py", "--no-store", start_new_session=True)
    assert running.stderr is not None
    script = next(int(line.split()[1]) for line in running.stderr if line.startswith("pid"))
    running.kill()
    running.wait()
    running.stderr.close()
    assert running.stdout is not None
    running.stdout.close()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{script}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{script}").exists()
