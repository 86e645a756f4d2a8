# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501  (lines as tools print them)
"""Results of other tools: hand-made logs with known truth, and the ways in which tools before counted wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ttmem import TtmemError
from ttmem.operators.sweeps.foreign import junit_xml, pytest_log, sweep_csv, sweep_json
from ttmem.operators.sweeps.foreign._names import operator_of, shapes_in
from ttmem.operators.sweeps.foreign.folder import read_place
from ttmem.operators.sweeps.summary import summarise

LOGS = Path(__file__).parents[3] / "data" / "sweep" / "older_logs"


def by_status(name: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for test in pytest_log.read((LOGS / name).read_text(), name):
        counts[test.status] = counts.get(test.status, 0) + 1
    return counts


def test_what_stands_in_the_log_and_in_the_summary_counts_once() -> None:
    assert by_status("test_clampmin_results.txt") == {"oom": 2, "invalid": 2}


def test_figures_of_a_skip_that_hides_an_oom() -> None:
    first = pytest_log.read((LOGS / "test_clampmin_results.txt").read_text(), "test_clampmin_results.txt")[0]

    assert (first.op, first.shape, first.failed_memory) == ("clampmin", (1, 3, 2176, 3840), "L1")
    assert (first.needed_bytes, first.bytes_per_bank, first.banks) == (534773760, 8355840, 64)
    assert first.shape_logical_bytes == 50135040  # the device was asked for ten times that


def test_dram_l1_and_clashes_are_told_apart_and_a_teardown_error_is_no_second_test() -> None:
    results, notes = pytest_log.read_log((LOGS / "test_add_results.txt").read_text(), "test_add_results.txt")

    found = [(test.status, test.failed_memory, test.shape) for test in results]
    assert found == [
        ("pass", None, (1, 32, 64, 64)),
        ("pass", None, (1, 32, 64, 64)),
        ("pass", None, (1, 64, 64, 64)),
        ("oom", "DRAM", (160, 100, 512, 1, 1)),
        ("oom", "L1", (1, 96, 2176, 1920)),
        ("clash", "L1", (1, 42471, 512)),
        ("fail", None, ()),
    ]
    # pytest counts the test with the bad teardown twice, as passed and as error; that is said, not copied
    assert notes == ["test_add_results.txt: pytest counts 4 passed, the log shows 3"]


def test_a_skip_for_wrong_arguments_is_no_pass_and_a_plain_skip_stays_one() -> None:
    assert by_status("test_expand_results.txt") == {"invalid": 1, "skipped": 1}


def test_a_quiet_log_is_read_from_its_summary() -> None:
    assert by_status("relu_results.txt") == {"oom": 3, "pass": 2}


def test_a_log_that_ends_inside_a_test() -> None:
    assert by_status("test_tanh_results.txt") == {"pass": 1, "crash": 1}


def test_a_folder_with_all_of_them() -> None:
    found = read_place(LOGS)
    summary = summarise(found.results, operators=found.operators, notes=found.notes)

    rows = {
        one.name: (one.tests, one.passed, one.memory_failures, one.failed, one.skipped, one.status)
        for one in summary.operators
    }
    assert rows == {
        "add": (7, 3, 3, 1, 0, "FAIL"),
        "bmm": (0, 0, 0, 0, 0, "NO TESTS"),
        "clampmin": (4, 0, 2, 2, 0, "FAIL"),
        "expand": (2, 0, 0, 1, 1, "FAIL"),
        "relu": (5, 2, 3, 0, 0, "OOM"),
        "tanh": (2, 1, 0, 1, 0, "FAIL"),
    }
    assert (summary.tests, summary.passed, summary.memory_failures, summary.failed, summary.skipped) == (
        20,
        6,
        8,
        5,
        1,
    )
    assert summary.by_memory == {"L1": 7, "DRAM": 1}
    assert summary.severities == {"CRITICAL": 3, "HIGH": 4, "LOW": 1}
    assert any("no test in it" in note for note in found.notes)


def test_a_test_that_two_files_tell_of_counts_once(tmp_path: Path) -> None:
    # GIVEN the terminal's log and the XML of the same run, and a copy of the log under the other name
    log = (LOGS / "test_clampmin_results.txt").read_text()
    (tmp_path / "test_clampmin_results.txt").write_text(log)
    (tmp_path / "clampmin_results.txt").write_text(log)
    cases = "".join(
        f'<testcase classname="tests.test_clampmin" name="test_clampmin[input_shape{n}]" time="0.1">'
        f'<skipped type="pytest.skip" message="OOM: [1, 3, 2176, 3840]">no figures here</skipped></testcase>'
        for n in (0, 1)
    )
    (tmp_path / "junit.xml").write_text(f'<testsuites><testsuite tests="2">{cases}</testsuite></testsuites>')

    found = read_place(tmp_path)

    assert len(found.results) == 4
    assert sorted(test.status for test in found.results) == ["invalid", "invalid", "oom", "oom"]
    assert all(test.needed_bytes for test in found.results if test.status == "oom"), "the telling with figures is kept"
    assert "6 tests are in more than one file and count once" in found.notes


def test_junit() -> None:
    sentence = (
        "Out of Memory: Not enough space to allocate 4194304000 B DRAM buffer across 12 banks, where each bank needs to "
        "store 349526016 B, but bank size is 1072693184 B"
    )
    text = f"""<?xml version="1.0"?><testsuite>
      <testcase classname="tests.ttnn.test_silu" name="test_silu[1x2x32x32]" time="0.5"/>
      <testcase classname="tests.ttnn.test_silu" name="test_silu[2x2x32x32]"><failure message="RuntimeError: TT_THROW">E  info:
E  {sentence}</failure></testcase>
      <testcase classname="tests.ttnn.test_silu" name="test_silu[3x2x32x32]"><error message="fixture 'device' not found"/></testcase>
      <testcase classname="tests.ttnn.test_silu" name="test_silu[4x2x32x32]"><skipped message="Skipping test because it won't fit in L1!"/></testcase>
      <testcase classname="tests.ttnn.test_silu" name="test_silu[5x2x32x32]"><skipped message="no second card"/></testcase>
    </testsuite>"""

    found = [(test.op, test.shape[0], test.status, test.failed_memory) for test in junit_xml.read(text, "j.xml")]

    assert found == [
        ("silu", 1, "pass", None),
        ("silu", 2, "oom", "DRAM"),
        ("silu", 3, "fail", None),
        ("silu", 4, "oom", "L1"),
        ("silu", 5, "skipped", None),
    ]


def test_xml_that_could_explode_is_refused() -> None:
    with pytest.raises(TtmemError, match="document type"):
        junit_xml.read('<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>', "j.xml")


FRAMEWORK = [
    {"status": "pass", "op_name": "ttnn.add", "input_hash": "a", "inputs": [{"shape": [1, 32]}]},
    # labelled L1 by the framework; the message says DRAM
    {
        "status": "fail_l1_out_of_mem",
        "op_name": "ttnn.add",
        "input_hash": "b",
        "exception": "Out of Memory: Not enough space to allocate 100 B DRAM buffer across 12 banks, where each bank needs to store 9 B",
    },
    # labelled an assertion; it is a clash
    {
        "status": "fail_assert_exception",
        "op_name": "ttnn.matmul",
        "input_hash": "c",
        "message": "Statically allocated circular buffers in program 1 clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer "
        "allocated at 709760 and static circular buffer region ends at 1364672",
    },
    {"status": "fail_assert_exception", "op_name": "ttnn.matmul", "input_hash": "d", "message": "0.1 PCC"},
    {"status": "fail_crash_hang", "op_name": "ttnn.matmul", "input_hash": "e"},
    {"status": "not_run", "op_name": "ttnn.matmul", "input_hash": "f", "message": "INVALID VECTOR"},
    # the same vector again
    {"status": "pass", "op_name": "ttnn.add", "input_hash": "a"},
]
TRUTH = [
    ("add", "pass", None),
    ("add", "oom", "DRAM"),
    ("matmul", "clash", "L1"),
    ("matmul", "fail", None),
    ("matmul", "crash", None),
    ("matmul", "skipped", None),
]


@pytest.mark.parametrize("document", [FRAMEWORK, {"status": "fail", "tests": FRAMEWORK}])
def test_sweep_framework_json(document: object) -> None:
    found = sweep_json.read(json.dumps(document), "s.json")

    assert [(test.op, test.status, test.failed_memory) for test in found] == TRUTH


OOM_TEXT = "Out of Memory: Not enough space to allocate 99 B L1 buffer across 64 banks"
SHAPES = ((1, 32, 64), (64, 128))


@pytest.mark.parametrize(
    "told",
    [
        {"op_params": {"input_shape": "(1, 32, 64)", "weight_shape": "[64, 128]", "input_a_dtype": "DataType.FLOAT32"}},
        {"op_params": "{'input_shapes': '[[1, 32, 64], [64, 128]]', 'dtype': 'ttnn.float32'}"},
        {"op_params": '{"input_shape": {"self": [1, 32, 64], "other": [64, 128]}, "dtype": "float32"}'},
        {"op_params": {"spec": "{'input_shape': (1, 32, 64), 'other_shape': (64, 128), 'input_dtype': 'float32'}"}},
        {"op_params": {"a_shape": "torch.Size([1, 32, 64])", "b_shape": "Shape([64, 128])", "dtype": "float32"}},
        {"op_params": {"a_shape": "1x32x64", "b_shape": "64x128", "dtype": "float32"}},
        {
            "inputs": None,
            "op_params": None,
            "op_params_set": [
                {"param_name": "spec.input_a_shape", "param_value_text": "(1, 32, 64)"},
                {"param_name": "spec.input_b_shape", "param_value_json": [64, 128]},
                {"param_name": "memory_config.data.shard_spec.shape", "param_value_json": [32, 32]},
                {"param_name": "output_shape", "param_value_text": "(1, 32, 128)"},
                {"param_name": "input_a_dtype", "param_value_text": "DataType.FLOAT32"},
                {"param_name": "scalar", "param_value_numeric": 2.0},
            ],
        },
        {
            "op_params": [
                {"param_name": "input_shape_a", "param_value_text": "[1, 32, 64]"},
                {"param_name": "input_shape_b", "param_value_text": "(64, 128)"},
                {"param_name": "dtype", "param_value_text": "DataType.FLOAT32"},
            ]
        },
        {"inputs": [{"shape": [1, 32, 64]}, {"shape": "[64, 128]"}], "op_params": {"dtype": "float32"}},
        {"input_shapes": "[(1, 32, 64), (64, 128)]", "input_a_dtype": "DataType.FLOAT32"},
    ],
)
def test_shapes_and_types_wherever_the_framework_writes_the_vector(told: dict[str, object]) -> None:
    item = {"status": "fail_l1_out_of_mem", "op_name": "matmul", "exception": OOM_TEXT, **told}
    (found,) = sweep_json.read(json.dumps([item]), "s.json")
    assert (found.shapes, found.dtype, found.status) == (SHAPES, "float32", "oom")


@pytest.mark.parametrize(
    ("told", "board"),
    [("wormhole_b0 (N150)", "n150"), ("blackhole (P150)", "p150"), ("n/a", ""), ("wormhole_b0", "wormhole_b0")],
)
def test_the_card_of_a_sweep_is_a_board_where_it_names_one(told: str, board: str) -> None:
    item = {"status": "pass", "op_name": "add"}
    assert sweep_json.read(json.dumps([{**item, "card_type": told}]), "s.json")[0].board == board
    assert sweep_json.read(json.dumps({"card_type": told, "tests": [item]}), "s.json")[0].board == board


def test_sweep_framework_csv() -> None:
    heads = ("status", "op_name", "input_hash", "exception", "message")
    lines = [",".join(heads)]
    lines += [",".join('"' + str(item.get(head, "")) + '"' for head in heads) for item in FRAMEWORK]

    found = sweep_csv.read("\n".join(lines), "s.csv")

    assert [(test.op, test.status, test.failed_memory) for test in found] == TRUTH


def test_documents_of_others_are_not_taken_for_results(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "page.xml").write_text("<html></html>")
    (tmp_path / "numbers.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TtmemError, match="no test results found"):
        read_place(tmp_path)


def test_names_and_shapes() -> None:
    assert operator_of("a/b/test_silu_results.txt") == "silu"
    assert operator_of("tests.ttnn.test_silu") == "silu"
    assert shapes_in("test[shape=(1, 3, 5)-x]") == ((1, 3, 5),)
    assert shapes_in("input_shape0") == ()
    assert shapes_in("1x3x224x224-bf16") == ((1, 3, 224, 224),)
