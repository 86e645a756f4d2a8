# SPDX-License-Identifier: Apache-2.0
"""Generated test files: valid, readable, and right on the real library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import Result
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.workspace import open_workspace
from ttmem.operators.case import Case, CaseTensor, ModelUse, write_cases
from ttmem.operators.catalogue_entries import DEVICE, catalogue
from ttmem.operators.pytest_files import Predictions, test_files

Run = Callable[..., Result]

LARGE = Case("silu", (CaseTensor((1, 96, 1088, 1920), "float32", "self"),), {}, (ModelUse("yolo", 2, "2176x3840"),))
SMALL = Case("silu", (CaseTensor((1, 96, 64, 64), "float32", "self"),), {}, (ModelUse("yolo", 1, "", ("m.act",)),))
CLASHING = Case("silu", (CaseTensor((1, 42471, 512), "float32", "self"),))
EXAMPLES = [operator.example_case() for operator in catalogue().operators.values() if operator.support == DEVICE]


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "cases.jsonl"
    write_cases(path, [SMALL, LARGE])
    return path


def test_a_whole_file() -> None:
    predictions = Predictions(
        {SMALL.id: {"n150": {"DRAM": "pass", "L1": "pass"}}}, {"n150": {"DRAM": (12, 1000), "L1": (64, 100)}}
    )
    made = test_files([SMALL, Case("flip", SMALL.tensors)], predictions, l1_small_bytes=32768)
    assert (
        made.files["test_silu.py"]
        == f'''\
# SPDX-License-Identifier: Apache-2.0
# Written by ttmem {_version()}; 'ttmem ops tests' renews it.
"""aten.silu as ttnn.silu

1 cases of yolo.
"""

import pytest
import ttnn
from ttmem_cases import Case, Tensor, check

pytestmark = pytest.mark.use_module_device


def call(tensors, arguments, memory_config, device):
    return ttnn.silu(tensors["self"], memory_config=memory_config)


CASES = [
    # yolo: 1 x (m.act)
    pytest.param(
        Case(
            id="{SMALL.id}",
            call=call,
            tensors={{"self": Tensor(shape=(1, 96, 64, 64), torch_dtype="float32")}},
            arguments={{}},
            reference={{}},
            expected={{"n150": {{"DRAM": "pass", "L1": "pass"}}}},
        ),
        id="1x96x64x64-bf16",
    ),
]


@pytest.mark.parametrize("memory", ["DRAM", "L1"])
@pytest.mark.parametrize("case", CASES)
def test_silu(device, case, memory):
    check(case, "silu", "unary", device, memory)
'''
    )
    assert 'PREDICTED_ON = {"n150": {"DRAM": (12, 1000), "L1": (64, 100)}}' in made.files["ttmem_cases.py"]
    assert set(made.files) == {"test_silu.py", "conftest.py", "ttmem_cases.py", "run_all_tests.sh"}
    assert made.tests == {"silu": 2}
    assert [reason for _, reason in made.left_out] == [
        "flip does not run on the device: no such function: slice and concat, or the host"
    ]


def _version() -> str:
    from ttmem import __version__

    return __version__


def test_files_of_all_operators_compile_and_are_clean(tmp_path: Path) -> None:
    made = test_files(EXAMPLES, Predictions(), l1_small_bytes=32768)
    assert len(made.tests) == len(EXAMPLES), "an operator that runs has a file with tests"
    for name, text in made.files.items():
        (tmp_path / name).write_text(text)
        if name.endswith(".py"):
            compile(text, name, "exec")
            assert max(map(len, text.splitlines())) <= 120, name
    ruff = shutil.which("ruff") or str(Path(sys.executable).with_name("ruff"))
    if not Path(ruff).exists():
        pytest.skip("THE GENERATED FILES WERE NOT LINTED: no ruff")
    config = Path(__file__).resolve().parents[3] / "pyproject.toml"
    for words in (("check", "--no-cache"), ("format", "--check", "--no-cache")):
        done = subprocess.run(
            [ruff, *words, "--config", str(config), str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:]


def test_a_case_that_would_end_the_test_run_is_left_out() -> None:
    predictions = Predictions({SMALL.id: {"n150": {"DRAM": "pass", "L1": "crash"}}})
    made = test_files([SMALL], predictions, l1_small_bytes=32768)
    assert made.tests == {}
    assert made.left_out == ((SMALL.id, "crash on the mock board: it would end the test run"),)


def test_ids_stay_readable_and_unique() -> None:
    views = [Case("view", (CaseTensor((4, 6)),), {"size": [size, 24 // size]}) for size in (2, 3)]
    text = test_files(
        [*views, Case("view", (CaseTensor((9, 1)),), {"size": [9]})], Predictions(), l1_small_bytes=0
    ).files
    ids = [
        line.strip() for line in text["test_view.py"].splitlines() if line.strip().startswith('id="') and "bf16" in line
    ]
    first, second = (view.id.rsplit("-", 1)[-1] for view in views)
    assert ids == [f'id="4x6-bf16-{first}",', f'id="4x6-bf16-{second}",', 'id="9x1-bf16",']


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("nowhere.jsonl", "-o", "out"), 2, "No such file"),
        (("cases.jsonl", "-o", "cases.jsonl", "--engine", "none"), 2, "is not a folder"),
        (("cases.jsonl", "-o", "out", "--op", "gelu", "--engine", "none"), 2, "no case of 'gelu'"),
        (("cases.jsonl", "-o", "out", "--board", "n15o"), 2, "did you mean"),
        (("cases.jsonl",), 2, "Missing option '-o'"),
    ],
)
def test_bad_usage(run: Run, cases: Path, arguments: tuple[str, ...], code: int, problem: str) -> None:
    done = run("ops", "tests", *arguments)
    assert done.code == code
    assert problem in done.err


def test_without_ttnn_sizes_alone_predict(run: Run, cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("ops", "tests", cases, "-o", "out", "--engine", "none", "--most", "1")
    assert done.code == 0, done.err
    text = Path("out/test_silu.py").read_text()
    assert "1x96x1088x1920" in text, "the most used case is kept"
    assert "1x96x64x64" not in text
    assert "expected" not in text
    assert os.access("out/run_all_tests.sh", os.X_OK)


def test_the_script_runs_every_file_and_keeps_what_they_said(run: Run, tmp_path: Path) -> None:
    # GIVEN tests of two operators, and a pytest that fails for one of them
    write_cases(tmp_path / "cases.jsonl", [SMALL, Case("relu", SMALL.tensors)])
    assert run("ops", "tests", "cases.jsonl", "-o", "out", "--engine", "none", "-q").code == 0
    fake = tmp_path / "fake-pytest"
    fake.write_text(
        '#!/bin/sh\necho "ran $*"\ncase "$1" in *relu*) echo "1 failed, 1 passed"; exit 1;; esac\necho "2 passed"\n'
    )
    fake.chmod(0o755)
    # WHEN all are run
    done = subprocess.run(
        ["bash", "out/run_all_tests.sh", "-x"],
        env={**os.environ, "PYTEST": str(fake)},
        capture_output=True,
        text=True,
        check=False,
    )
    # THEN each has its file, and one failure is the script's failure
    assert done.returncode == 1
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines == [
        "test_relu 1 failed, 1 passed",
        "test_silu 2 passed",
        "1 test files failed; see test_results/",
    ]
    kept = Path("out/test_results/test_silu_results.txt").read_text()
    assert kept == "ran test_silu.py -q -rA -x\n2 passed\n"


def _pytest(interpreter: Interpreter, linked: Path, board: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest in the interpreter that has ttnn, on a mock board."""
    with open_workspace(interpreter, board=board) as place:
        environment = place.build_environment(os.environ) | {"PYTHONPATH": str(linked)}
        probe = [interpreter.path, "-c", "import pytest"]
        if subprocess.run(probe, env=environment, capture_output=True, check=False).returncode:
            pytest.skip(f"THE GENERATED TESTS WERE NOT RUN: pytest of {sys.version.split()[0]} cannot run there")
        return subprocess.run(
            [interpreter.path, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )


@pytest.mark.oracle
def test_generated_files_pass_on_the_mock_they_were_predicted_for(
    run: Run, with_ttnn: Interpreter, linked_pytest: Path, tmp_path: Path
) -> None:
    # GIVEN tests of every operator, and of cases that run out of L1, out of DRAM, and clash with a program's buffers
    huge = Case("silu", (CaseTensor((160, 100, 512, 1, 1)),))
    write_cases(tmp_path / "cases.jsonl", [SMALL, LARGE, CLASHING, huge, *EXAMPLES])
    done = run("ops", "tests", "cases.jsonl", "-o", "out", "--engine", "mock", "-q")
    assert done.code == 0, done.err
    text = Path("out/test_silu.py").read_text()
    for outcomes in ('"L1": "oom"', '"DRAM": "oom"', '"L1": "clash"', '"DRAM": "pass"'):
        assert outcomes in text
    # WHEN they run on that board
    results = tmp_path / "results.jsonl"
    ran = _pytest(with_ttnn, linked_pytest, "n150", "out")
    # THEN every prediction holds, and nobody was skipped
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-1000:]
    assert f"{2 * (len(EXAMPLES) + 4)} passed" in ran.stdout
    assert not results.exists()


@pytest.mark.oracle
def test_a_wrong_prediction_fails_and_leaves_nothing_behind(
    run: Run, with_ttnn: Interpreter, linked_pytest: Path, cases: Path
) -> None:
    # GIVEN predictions that are turned around
    assert run("ops", "tests", cases, "-o", "out", "--engine", "mock", "-q").code == 0
    path = Path("out/test_silu.py")
    text = path.read_text()
    path.write_text(text.replace('"L1": "oom"', '"L1": "pass"', 1).replace('"L1": "pass"', '"L1": "oom"', 1))
    # WHEN they run
    ran = _pytest(with_ttnn, linked_pytest, "n150", "out", "-rf")
    # THEN exactly the changed ones fail, in both directions
    assert ran.returncode == 1
    assert "2 failed, 2 passed" in ran.stdout
    assert "L1: oom was predicted (on a mock n150), but: pass" in ran.stdout
    assert "L1: pass was predicted (on a mock n150), but: oom" in ran.stdout


@pytest.mark.oracle
def test_on_another_board_sizes_predict(
    run: Run, with_ttnn: Interpreter, linked_pytest: Path, cases: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results = tmp_path / "results.jsonl"
    monkeypatch.setenv("TTMEM_RESULTS", str(results))
    assert run("ops", "tests", cases, "-o", "out", "--engine", "mock", "-q").code == 0
    ran = _pytest(with_ttnn, linked_pytest, "p150", "out")
    assert ran.returncode == 0, ran.stdout[-3000:]
    assert "4 passed" in ran.stdout
    assert len(results.read_text().splitlines()) == 4


def test_the_comparison_with_torch_can_be_made(torch_python: str, linked_pytest: Path, tmp_path: Path) -> None:
    """There is no card here, so ttnn is a stand-in that answers what torch does: the rest of the comparison is real."""
    folder = tmp_path / "generated"
    folder.mkdir()
    for name, text in test_files(EXAMPLES, Predictions(), l1_small_bytes=32768).files.items():
        (folder / name).write_text(text)
    done = subprocess.run(
        [torch_python, str(Path(__file__).with_name("reference_check.py")), str(folder)],
        env={**os.environ, "PYTHONPATH": str(linked_pytest)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, f"status {done.returncode} (a signal below 0): {done.stderr[-3000:]}"
    assert json.loads(done.stdout) == {"checked": len(EXAMPLES), "problems": {}}


def test_infinities_are_numbers_for_torch_and_finite_for_the_device() -> None:
    case = Case("masked_fill", (CaseTensor((4, 4)), CaseTensor((4, 4), "bool")), {"value": "-inf"})
    text = test_files([case], Predictions(), l1_small_bytes=0).files["test_masked_fill.py"]
    assert 'arguments={"finite_value": -3.3895313892515355e38}' in text
    assert 'reference={"value": float("-inf")}' in text
