# SPDX-License-Identifier: Apache-2.0
"""``ttmem ops`` from the command line, without torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import Result
from support.operator_fixtures import DATA
from ttmem.engines.interpreters import Interpreter
from ttmem.operators.case import Case, CaseTensor, ModelUse, read_cases, write_cases

Run = Callable[..., Result]

CASES = [
    Case("silu", (CaseTensor((1, 96, 64, 64), "float32", "self"),), {}, (ModelUse("yolo", 3, "", ("m.act",)),)),
    Case("view", (CaseTensor((2, 6), "float32", "self"),), {"size": [3, 4]}, (ModelUse("vit", 2),)),
    Case("view", (CaseTensor((2, 6), "float32", "self"),), {"size": [5]}, (ModelUse("vit", 1),)),
    Case("alias", (CaseTensor((2, 6), "float32", "self"),), {}, (ModelUse("vit", 4),)),
    Case("flip", (CaseTensor((2, 6), "float32", "self"),), {"dims": [0]}, (ModelUse("vit", 1),)),
    Case("made_up", (CaseTensor((2, 6), "float32", "self"),), {}, (ModelUse("swin", 1),)),
]


@pytest.fixture
def cases(home: Path) -> Path:
    path = home.parent / "work" / "cases.jsonl"
    write_cases(path, CASES)
    return path


def test_lists_are_extracted_into_one_file(run: Run) -> None:
    done = run("ops", "extract", DATA / "operators.csv", DATA / "master.json", "-o", "cases.jsonl", "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert (told["cases"], told["operators"], told["calls"], told["attention"]) == (8, 7, 26, "fused")
    assert [(source["kind"], source["cases"]) for source in told["sources"]] == [
        ("operators-csv", 5),
        ("master-json", 3),
    ]
    assert [case.op for case in read_cases("cases.jsonl")][:3] == ["silu", "add", "permute"]


def test_cases_go_to_stdout_alone_and_the_table_to_stderr(run: Run) -> None:
    done = run("ops", "extract", DATA / "operators.csv")
    assert [json.loads(line)["op"] for line in done.out.splitlines()] == [
        "silu",
        "add",
        "permute",
        "_unsafe_view",
        "sigmoid",
    ]
    assert "5 different cases of 5 operators, 6 calls" in done.err
    assert "2 names are no operators: Tensor, cv1" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("nowhere.csv",), 2, "nowhere.csv: no such file"),
        (("hf:ViTConfig", "--size", "big"), 2, "'big' is no image size"),
        (("hf:ViTConfig", "--size", "0x5"), 2, "'0x5' is no image size"),
        (("hf:ViTConfig", "--set", "depth"), 2, "'depth' is no setting"),
        ((DATA / "master.json", "--json"), 2, "name a file for them with -o"),
        ((), 2, "Missing argument 'TARGET...'"),
        (("nowhere.py::load",), 2, "nowhere.py: no such file"),
    ],
)
def test_bad_usage_of_extract(run: Run, arguments: tuple[object, ...], code: int, problem: str) -> None:
    done = run("ops", "extract", *arguments)
    assert (done.code, done.out) == (code, "")
    assert problem in done.err


def test_no_list_is_overwritten_by_its_own_cases(run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "list.csv"
    copy.write_bytes((DATA / "operators.csv").read_bytes())
    assert run("ops", "extract", copy, "-o", copy).code == 2
    assert copy.read_bytes() == (DATA / "operators.csv").read_bytes()


def test_map_of_the_whole_catalogue(run: Run) -> None:
    done = run("ops", "map", "--json")
    told = json.loads(done.out)
    statistics = told["statistics"]
    assert statistics["total_operators"] == len(told["operators"]) >= 185
    counted = statistics["supported"] + statistics["unsupported"] + statistics["meta_operations"]
    assert counted == statistics["total_operators"] == sum(statistics["by_category"].values())
    assert "silu" in run("ops", "map").out


def test_map_says_what_the_twin_knows_of_the_calls_of_models(run: Run) -> None:
    told = json.loads(run("ops", "map", "--json").out)
    twin = told["twin"]
    assert (twin["models"], list(twin["exact_percent_by_place"])) == (
        52,
        ["n150 DRAM", "n150 L1", "p150 DRAM", "p150 L1"],
    )
    assert twin["exact_percent"] >= 95
    assert 99.5 <= twin["exact_percent"] + twin["bounded_percent"] + twin["unknown_percent"] <= 100
    # every call of the models is one of an operator, but for those without a call of their own
    counted = sum(operator.get("model_calls", 0) for operator in told["operators"].values())
    assert 0.99 * twin["calls"] <= counted <= twin["calls"]
    assert told["operators"]["convolution"]["exact_percent"] == 100
    shown = run("ops", "map").out
    assert f"{twin['calls']:,} calls from 52 models" in " ".join(shown.split())


def test_map_of_cases_says_what_is_used_and_what_cannot_run(run: Run, cases: Path) -> None:
    told = json.loads(run("ops", "map", cases, "--json").out)
    assert told["statistics"] == {
        "total_operators": 5,
        "supported": 2,
        "unsupported": 2,
        "meta_operations": 1,
        "by_category": {"view": 2, "unary": 1, "unknown": 1, "unsupported": 1},
        "calls": 12,
        "covered_calls": 10,
    }
    assert list(told["operators"]) == ["alias", "silu", "view", "flip", "made_up"], "the most called first"
    view = told["operators"]["view"]
    assert (view["cases"], view["calls"], view["unique_shapes"], view["runnable_cases"]) == (2, 3, 1, 1)
    assert view["cannot_run"] == {"[2, 6] has 12 elements, [5] has 5": 1}


def test_map_writes_the_files_of_the_vision_study(run: Run, cases: Path) -> None:
    assert run("ops", "map", cases, "-o", "mapping").code == 0
    folder = Path("mapping")
    names = {"basic_operators.json", "operator_mapping.json", "mapping_analysis.json", "compatibility_matrix.md"}
    assert {path.name for path in folder.iterdir()} == names
    basic = json.loads((folder / "basic_operators.json").read_text())
    assert basic["silu"] == [
        {"shapes": [[1, 96, 64, 64]], "model": "yolo", "full_name": "m.act.silu", "case": CASES[0].id}
    ]
    silu = json.loads((folder / "operator_mapping.json").read_text())["silu"]
    assert {key: silu[key] for key in ("ttnn_function", "torch_function", "num_inputs", "category", "supported")} == {
        "ttnn_function": "ttnn.silu",
        "torch_function": "torch.ops.aten.silu",
        "num_inputs": 1,
        "category": "unary",
        "supported": True,
    }
    analysis = json.loads((folder / "mapping_analysis.json").read_text())
    assert analysis["detailed_analysis"]["view"]["occurrences"] == 3
    assert analysis["detailed_analysis"]["view"]["mapping"]["ttnn_function"] == "ttnn.reshape"
    matrix = (folder / "compatibility_matrix.md").read_text()
    assert "| `silu` | `ttnn.silu` | unary | yes | exact | 3 | 1 |" in matrix
    assert "| `made_up` | - | unknown | not known | - | 1 | 1 | not in the catalogue |" in matrix


@pytest.mark.oracle
def test_map_tries_the_operators_on_the_mock(run: Run, cases: Path, with_ttnn: Interpreter) -> None:
    told = json.loads(run("ops", "map", cases, "--engine", "mock", "--json").out)
    assert told["operators"]["silu"]["tried"] == {
        "DRAM tile": "pass",
        "L1 tile": "pass",
        "DRAM row-major": "pass",
        "L1 row-major": "pass",
    }
    assert "tried" not in told["operators"]["flip"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nowhere.jsonl",), "No such file"),
        (("cases.jsonl", "-o", "cases.jsonl"), "is not a folder"),
    ],
)
def test_bad_usage_of_map(run: Run, cases: Path, arguments: tuple[str, ...], problem: str) -> None:
    done = run("ops", "map", *arguments)
    assert done.code == 2
    assert problem in done.err
