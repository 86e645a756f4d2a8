# SPDX-License-Identifier: Apache-2.0
"""Models traced with torch: what is found in a net that can be counted by hand, and what happens when one fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import Result
from support.operator_fixtures import DATA
from ttmem import TtmemError
from ttmem.operators.case import Case, CaseTensor, ModelUse, read_cases
from ttmem.operators.case_program import lower_case
from ttmem.operators.tracer.job import TraceJob
from ttmem.operators.tracing import SourceResult, find_torch_python, trace_all

MODEL = DATA / "small_model.py"


def trace(torch_python: str, function: str = "load_model", **job: object) -> SourceResult:
    """The trace of a function of the small model's file."""
    ((_, found),) = trace_all([TraceJob(f"{MODEL}::{function}", **job)], python=torch_python)  # type: ignore[arg-type]
    return found


def tensor(name: str, *shape: int, parameter: bool = False) -> CaseTensor:
    return CaseTensor(shape, "float32", name, parameter)


def test_every_operator_with_tensors_scalars_and_place(torch_python: str) -> None:
    # WHEN the small net is traced at its own size
    found = trace(torch_python)
    # THEN the cases are exactly these: dropout is gone, the linear layer is a transposed weight and a product
    use = [ModelUse("small_model", 1, "", (module,)) for module in ("block.conv", "block.norm", "block.act", "head")]
    top = ModelUse("small_model", 1, "", ("Small",))
    activation = (CaseTensor((1, 32, 8, 12), "float32"),)
    assert [case.op for case in found.cases] == [
        "convolution",
        "native_batch_norm",
        "relu_",
        "mean",
        "t",
        "addmm",
        "_softmax",
        "clamp",
    ]
    assert found.calls == 8
    assert found.parameters == 32 * 3 * 9 + 32 + 2 * 32 + 32 * 10 + 10
    assert list(found.cases) == [
        Case(
            "convolution",
            (
                tensor("input", 1, 3, 16, 24),
                tensor("weight", 32, 3, 3, 3, parameter=True),
                tensor("bias", 32, parameter=True),
            ),
            {
                "stride": [2, 2],
                "padding": [1, 1],
                "dilation": [1, 1],
                "transposed": False,
                "output_padding": [0, 0],
                "groups": 1,
            },
            (use[0],),
            activation,
        ),
        Case(
            "native_batch_norm",
            (
                tensor("input", 1, 32, 8, 12),
                *(tensor(name, 32, parameter=True) for name in ("weight", "bias", "running_mean", "running_var")),
            ),
            {"training": False, "momentum": 0.1, "eps": 1e-05},
            (use[1],),
            activation,
        ),
        Case("relu_", (tensor("self", 1, 32, 8, 12),), {}, (use[2],), activation),
        Case(
            "mean",
            (tensor("self", 1, 32, 8, 12),),
            {"dim": [2, 3], "keepdim": False, "dtype": None},
            (top,),
            (CaseTensor((1, 32), "float32"),),
        ),
        Case("t", (tensor("self", 10, 32, parameter=True),), {}, (use[3],), (CaseTensor((32, 10), "float32"),)),
        Case(
            "addmm",
            (
                tensor("self", 10, parameter=True),
                tensor("mat1", 1, 32),
                tensor("mat2", 32, 10, parameter=True),
            ),
            {"beta": 1, "alpha": 1},
            (use[3],),
            (CaseTensor((1, 10), "float32"),),
        ),
        Case(
            "_softmax",
            (tensor("self", 1, 10),),
            {"dim": -1, "half_to_float": False},
            (top,),
            (CaseTensor((1, 10), "float32"),),
        ),
        Case(
            "clamp",
            (tensor("self", 1, 10),),
            {"min": 0.1, "max": None},
            (top,),
            (CaseTensor((1, 10), "float32"),),
        ),
    ]
    # AND each can be run without any assumption
    assert all(not lower_case(case).assumed for case in found.cases)


def test_sizes_batches_and_settings_reach_the_functions(torch_python: str) -> None:
    found = trace(torch_python, inputs=f"{MODEL}::get_inputs", size=(32, 64), batch=2, settings={"channels": 64})
    assert found.size == "32x64"
    assert found.cases[0].tensors[0].shape == (2, 3, 32, 64)
    assert found.cases[0].outputs[0].shape == (2, 64, 16, 32)


def test_attention_as_one_operator_or_as_many(torch_python: str) -> None:
    fused = trace(torch_python, "attention", inputs=f"{MODEL}::heads")
    eager = trace(torch_python, "attention", inputs=f"{MODEL}::heads", eager_attention=True)
    assert [case.op for case in fused.cases] == ["_scaled_dot_product_flash_attention_for_cpu"]
    assert {"bmm", "_safe_softmax"} <= {case.op for case in eager.cases} or "_softmax" in {c.op for c in eager.cases}
    assert all(case.outputs[0].shape[-2:] != (64, 64) for case in fused.cases)
    assert any(case.outputs[0].shape[-2:] == (64, 64) for case in eager.cases)


def test_a_refused_size_and_a_crash_cost_one_result_each(torch_python: str) -> None:
    # GIVEN a model that takes 8x8 only, one that kills its process, and one that works
    jobs = [
        TraceJob(f"{MODEL}::picky", size=(8, 8)),
        TraceJob(f"{MODEL}::picky", size=(9, 9)),
        TraceJob(f"{MODEL}::crashing"),
        TraceJob(f"{MODEL}::load_model"),
    ]
    # WHEN they are traced by two processes
    found = dict(trace_all(jobs, python=torch_python, workers=2))
    # THEN each has its own outcome
    assert [found[number].status == "ok" for number in range(4)] == [True, False, False, True]
    assert "shape '[1, 3, 64]' is invalid" in found[1].refusal
    assert found[2].refusal == "the tracing process ended with status 11"


@pytest.mark.parametrize(
    ("signal", "remedy"), [("SIGILL", "ONEDNN_MAX_CPU_ISA"), ("SIGKILL", "memory"), ("SIGSEGV", "faulthandler")]
)
def test_a_tracing_process_that_died_is_told_with_its_signal_and_a_remedy(
    torch_python: str, tmp_path: Path, signal: str, remedy: str
) -> None:
    model = tmp_path / "dies.py"
    model.write_text(f"import os, signal\ndef load_model():\n    os.kill(os.getpid(), signal.{signal})\n")
    (_, found), *_ = trace_all([TraceJob(f"{model}::load_model")], python=torch_python)
    assert found.refusal.startswith(f"the tracing process was ended by {signal}; ")
    assert remedy in found.refusal


def test_traces_keep_away_from_matrix_instructions_that_may_not_be_there(
    torch_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "asks.py"
    model.write_text("import os\ndef load_model():\n    raise RuntimeError(os.environ['ONEDNN_MAX_CPU_ISA'])\n")

    def isa() -> str:
        (_, found), *_ = trace_all([TraceJob(f"{model}::load_model")], python=torch_python)
        return found.refusal

    assert "AVX512_CORE_BF16" in isa()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")  # the user's word counts
    assert "AVX2" in isa()


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        (TraceJob("nowhere.py::load_model"), "no such file"),
        (TraceJob(f"{MODEL}::"), "names no function"),
        (TraceJob(f"{MODEL}::load_model", inputs="x.py"), "names no function"),
    ],
)
def test_what_is_not_there_is_seen_without_torch(job: TraceJob, problem: str) -> None:
    with pytest.raises(TtmemError, match=problem) as told:
        list(trace_all([job]))
    assert told.value.exit_code == 2


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (f"{MODEL}::load_modle", "has no function 'load_modle'; it has"),
        ("hf:NoSuchConfig", "has no 'NoSuchConfig'"),
        ("hf:pipeline", "neither a config nor a model class"),
    ],
)
def test_a_bad_target_is_bad_input(torch_python: str, target: str, problem: str) -> None:
    with pytest.raises(TtmemError) as told:
        list(trace_all([TraceJob(target)], python=torch_python))
    if "transformers is not installed" in str(told.value):
        pytest.skip("NO CONFIG WAS LOOKED FOR: transformers is not installed")
    assert (told.value.exit_code, problem in str(told.value)) == (2, True)


def test_a_setting_that_nobody_takes_is_bad_input(torch_python: str) -> None:
    with pytest.raises(TtmemError, match="load_model has no parameter 'chanels'"):
        trace(torch_python, settings={"chanels": 3})


def test_without_torch_the_hint_is_the_install_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ttmem.operators.tracing._has_torch", lambda python: False)
    monkeypatch.delenv("TTMEM_TORCH_PYTHON", raising=False)
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path))
    with pytest.raises(TtmemError) as told:
        find_torch_python()
    assert (told.value.exit_code, told.value.hint) == (3, f"{sys.executable} -m pip install 'torch>=2.4'")
    with pytest.raises(TtmemError, match="has no torch"):
        find_torch_python("some-python")


def test_extract_from_the_command_line(
    torch_python: str, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTMEM_TORCH_PYTHON", torch_python)
    # WHEN two models are extracted, one of which refuses one of two sizes
    done = run(
        "ops", "extract", f"{MODEL}::load_model", f"{MODEL}::picky", "--inputs", f"{MODEL}::get_inputs",
        "--size", "8x8", "--size", "16", "--json", "-o", "cases.jsonl", "-q",
    )  # fmt: skip
    # THEN the others are there, and the refusal is told
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert [(s["model"], s["size"], s["status"], s["cases"]) for s in told["sources"]] == [
        ("small_model", "8x8", "ok", 8),
        ("small_model", "16x16", "ok", 8),
        ("small_model.picky", "8x8", "ok", 1),
        ("small_model.picky", "16x16", "refused", 0),
    ]
    cases = read_cases("cases.jsonl")
    assert (len(cases), told["cases"], told["calls"]) == (13, 13, 17)
    softmax = next(case for case in cases if case.op == "_softmax")
    assert [(use.size, use.count) for use in softmax.uses] == [("8x8", 1), ("16x16", 1)]


def test_no_case_at_all_is_a_no(torch_python: str, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTMEM_TORCH_PYTHON", torch_python)
    done = run("ops", "extract", f"{MODEL}::picky", "--size", "9x9")
    assert (done.code, done.out) == (1, "")
    assert "small_model.picky refuses 9x9: RuntimeError: shape '[1, 3, 64]' is invalid" in done.err


def test_configs_of_transformers_without_weights(torch_python: str) -> None:
    configs = ("ViTConfig", "SwinConfig", "ResNetConfig", "SegformerConfig")
    jobs = [TraceJob(f"hf:{config}", size=size) for config in configs for size in ((224, 224), (2176, 3840))]
    try:
        found = dict(trace_all(jobs, python=torch_python))
    except TtmemError as error:
        pytest.skip(f"NO CONFIG WAS TRACED: {error}")
    for number, config in enumerate(configs):
        small, large = found[2 * number], found[2 * number + 1]
        assert (small.refusal, large.refusal) == ("", ""), config
        # a large image has the same operators in other shapes
        assert {case.op for case in small.cases} <= {case.op for case in large.cases}, config
        assert small.cases[0].tensors[0].shape == (1, 3, 224, 224)
        assert large.cases[0].tensors[0].shape[0] == 1
