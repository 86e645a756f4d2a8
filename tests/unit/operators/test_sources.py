# SPDX-License-Identifier: Apache-2.0
"""Lists of other tools, hand-made with known truth."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.operator_fixtures import DATA
from ttmem import TtmemError
from ttmem.base.errors import BadInputError
from ttmem.operators.case import Case, CaseTensor, ModelUse, write_cases
from ttmem.operators.sources.detect import read_list


def test_operators_csv() -> None:
    found = read_list(DATA / "operators.csv")
    assert found.kind == "operators-csv"
    assert list(found.cases) == [
        Case(
            "silu",
            (CaseTensor((1, 80, 640, 400)),),
            {},
            (ModelUse("YOLOv8s_world", 2, "", ("model.0.act.silu", "model.1.act.silu")),),
        ),
        Case(
            "add",
            (CaseTensor((1334, 4, 49, 49)), CaseTensor((1, 4, 49, 49))),
            {},
            (ModelUse("swin", 1, "", ("aten.add",)),),
        ),
        Case(
            "permute",
            (CaseTensor((1, 512, 160, 100, 1)),),
            {},
            (ModelUse("YOLOv8s_world", 1, "", ("aten.permute",)),),
        ),
        Case("_unsafe_view", (CaseTensor((64, 49, 96)),), {}, (ModelUse("swin", 1, "", ("blocks.0.unsafeview",)),)),
        Case("sigmoid", (CaseTensor((1, 1, 1280, 800)),), {}, (ModelUse("unet", 1, "", ("aten.sigmoid",)),)),
    ]
    assert found.other_names == ("Tensor", "cv1"), "an overload and a module are no operators"
    assert found.skipped == {
        "rows whose last name part is no operator": 2,
        "rows that name an input, not an operator": 2,
        "rows without a shape": 1,
        "rows without exactly three columns": 1,
    }


def test_master_json() -> None:
    found = read_list(DATA / "master.json")
    assert list(found.cases) == [
        Case(
            "silu",
            (CaseTensor((1, 1, 32, 128), "bfloat8_b"),),
            {},
            (ModelUse("models/demos/llama [HF_MODEL:x]", 16),),
        ),
        Case("transpose", (CaseTensor((1, 8, 32, 64)),), {"dim0": 1, "dim1": 2}),
        Case(
            "mul",
            (CaseTensor((32, 64), "float32"), CaseTensor((1, 64), "float32")),
            {},
            (ModelUse("a"), ModelUse("b", 2)),
        ),
    ]
    assert found.other_names == ("ttnn::experimental::all_gather_async",)
    assert found.skipped == {
        "configurations without a tensor": 1,
        "configurations of functions without an operator": 1,
    }


def test_sweep_json() -> None:
    found = read_list(DATA / "eltwise.unary.silu.silu.json")
    assert list(found.cases) == [
        Case("silu", (CaseTensor((1, 2, 32, 64)),), {}, (ModelUse("nightly"),)),
        Case("silu", (CaseTensor((5, 96, 64), "bfloat8_b"),), {}, (ModelUse("nightly"),)),
        Case("silu", (CaseTensor((4, 4)),), {}, (ModelUse("xfail_shard"),)),
    ]
    assert found.skipped == {"vectors without a shape": 1}


def test_input_variations() -> None:
    found = read_list(DATA / "aten.add.Tensor.csv")
    assert list(found.cases) == [
        Case("add", (CaseTensor((1, 256, 1024), name="self"), CaseTensor((1, 256, 1024), name="other"))),
        Case("add", (CaseTensor((1, 1), name="self"),), {"other": 1e-05}),
    ]
    assert found.skipped == {"rows whose shapes hold symbols": 1, "rows that cannot be understood": 1}


def test_a_folder_of_input_variations_is_read_as_one() -> None:
    assert [case.op for case in read_list(DATA).cases] == ["add", "add"]


def test_case_files_are_merged_like_lists(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    cases = read_list(DATA / "operators.csv").cases
    write_cases(path, [*cases, cases[0]])
    found = read_list(path)
    assert (found.kind, len(found.cases), found.cases[0].count) == ("cases", 5, 4)


def test_variation_strings_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "variations.txt"
    path.write_text(
        "aten.cat.default: List[Tensor] tensors = [<[1, 2]>, <[1, 3]>], int dim = -1\n"
        "aten.mean.dim: Tensor<[1, 7, 7]> self = ?, Optional[List[int]] dim = [-1, -2], bool keepdim = True\n"
        'aten._to_copy.default: "Tensor<[4]> self = ?, Optional[int] dtype = torch.float32"\n'
    )
    assert list(read_list(path).cases) == [
        Case("cat", (CaseTensor((1, 2), name="tensors"), CaseTensor((1, 3), name="tensors")), {"dim": -1}),
        Case("mean", (CaseTensor((1, 7, 7), name="self"),), {"dim": [-1, -2], "keepdim": True}),
        Case("_to_copy", (CaseTensor((4,), name="self"),), {"dtype": "float32"}),
    ]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.csv", "", "not a list of operators"),
        ("a.csv", "name,shapes,model\nx.cv1,[torch.Size([1])],m\n", "no operator in it"),
        ("a.json", "{", "not JSON"),
        ("a.json", "{}", "JSON of no known form"),
        ("a.json", '{"operations": {}}', "no operator in it: it is empty"),
        ("a.json", '{"s": {"h": {"input_shape": [1]}}}', "no operator in it: 1 x vectors of 'a'"),
        ("b.csv", "Variation #,Input\n0,x\n", "the file's name must say the operator"),
    ],
)
def test_what_is_no_list_is_refused(name: str, text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(TtmemError) as told:
        read_list(tmp_path / name)
    assert problem in str(told.value)
    assert told.value.exit_code == 2


LISTS = [(path.name, path.read_text()) for path in sorted(DATA.iterdir()) if path.suffix in (".csv", ".json")]


@given(st.sampled_from(LISTS), st.integers(0, 4000), st.integers(0, 40), st.text(max_size=5))
def test_a_damaged_list_gives_cases_or_a_clean_error(
    tmp_path_factory: pytest.TempPathFactory, which: tuple[str, str], at: int, length: int, inserted: str
) -> None:
    name, text = which
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_text(text[:at] + inserted + text[at + length :], encoding="utf-8")
    try:
        cases = read_list(path).cases
    except BadInputError:
        return
    assert cases
