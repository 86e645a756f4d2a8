# SPDX-License-Identifier: Apache-2.0
"""A record is all that is known of an operation: whoever asks for something finds it there, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.draws import draw_call, find_draw, load_draws
from oracle.draws.choose import RandomChoose
from ttmem.engines.twin import TwinEngine
from ttmem.hardware import BFLOAT16, DRAM
from ttmem.twin.operations import (
    BOUNDED,
    EXACT,
    RECORDS,
    UNKNOWN,
    Argument,
    OperationRecord,
    build_call,
    combine_confidence,
    format_call,
    parse_call,
    registry,
)
from ttmem.twin.operations.unary import unary
from ttmem.twin.tensor_spec import TILE, TensorSpec

TENSOR = {"shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}


def opened_for(record: OperationRecord, **settings: int) -> TwinEngine:
    """A board that can do it."""
    if record.needs_mesh:
        return TwinEngine(board="n300", mesh=(1, 2), **settings)
    return TwinEngine(board="n150", **settings)


@pytest.mark.parametrize("name", RECORDS.names())
def test_examples_run_and_are_as_certain_as_the_record_says(name: str) -> None:
    record = RECORDS.find(name)
    outcome = opened_for(record, l1_small_bytes=32768).ask(record.example)
    assert (outcome.status if outcome.is_judged else "pass") == "pass", outcome
    assert outcome.confidence == record.confidence, outcome.doubt
    assert outcome.is_judged or record.confidence == BOUNDED


def test_every_module_with_records_is_listed() -> None:
    folder = Path(registry.__file__).parent
    families = [path.stem for path in folder.glob("*.py") if "\nRECORDS" in path.read_text("utf-8")]
    assert sorted(registry.FAMILIES) == sorted(set(families) - {"registry"}), "name new modules in registry.FAMILIES"


def test_every_record_has_a_draw_and_every_draw_a_record() -> None:
    missing = [record.name for record in RECORDS if find_draw(record) is None]
    assert not missing, "write their draws: tests/oracle/draws/<family>.py, DRAWS"
    assert load_draws().keys() <= {name for record in RECORDS for name in (record.name, record.family)}


@pytest.mark.parametrize("name", RECORDS.names())
def test_random_calls_use_no_argument_that_the_record_does_not_know(name: str) -> None:
    record, choose = RECORDS.find(name), RandomChoose(name)
    drawn = {EXACT: 0, BOUNDED: 0, UNKNOWN: 0}
    for _ in range(60):
        *_, call = steps = draw_call(record, choose)
        written = parse_call(call)
        assert RECORDS.find(written.function) is record
        inputs = [TensorSpec((1,), BFLOAT16, TILE, DRAM)] if written.target is not None else []
        assert build_call(record, written, inputs, *inputs).unknown_options == ()
        outcome = opened_for(record).ask(steps)
        assert outcome.status in ("pass", "clash", "overflow", "oom", "invalid") or not outcome.is_judged, outcome
        assert outcome.is_judged or outcome.confidence != EXACT
        drawn[outcome.confidence] += 1
    assert drawn[EXACT] > 20 or (record.confidence == BOUNDED and drawn[BOUNDED] > 20), drawn


def test_what_a_call_says_is_read_once_for_all_operations() -> None:
    written = parse_call(
        {
            "call": "ttnn.concat",
            "args": [[{"tensor": "a"}, {"tensor": "b"}], 1],
            "kwargs": {"memory_config": {"memory": "L1"}, "groups": {"tuple": [1, 2]}},
            "out": "c",
        }
    )
    assert (written.function, written.tensors, written.values) == ("concat", ("a", "b"), (1,))
    assert (str(written.memory), dict(written.options), written.target) == ("L1", {"groups": [1, 2]}, None)


@pytest.mark.parametrize(
    "call",
    [
        {"call": "ttnn.add_", "args": [{"tensor": "a"}, {"tensor": "b"}]},
        {"call": "ttnn.add", "args": [{"tensor": "a"}, {"tensor": "b"}], "kwargs": {"output_tensor": {"tensor": "a"}}},
    ],
)
def test_in_place_forms_are_the_same_operation(call: dict[str, object]) -> None:
    written = parse_call(call)
    record = RECORDS.find(written.function)
    assert (record.name, written.tensors, written.target) == ("add", ("a", "b"), "a")
    assert build_call(record, written, ()).in_place


def test_an_option_that_nobody_compared_is_a_doubt() -> None:
    steps = format_call("where", [TENSOR] * 3, sub_core_grids={"new": "ttnn.CoreRangeSet", "args": [[]]})
    outcome = TwinEngine(board="n150").ask(steps)
    assert (outcome.confidence, outcome.doubt) == (BOUNDED, "calls with sub_core_grids are not verified")


def test_a_call_that_no_overload_takes_says_what_there_is() -> None:
    call = build_call(RECORDS.find("permute"), parse_call({"call": "ttnn.permute", "args": [{"tensor": "a"}]}), ())
    wanted = "it takes input_tensor, dims, memory_config, pad_value"
    assert call.signature_mismatch == f"ttnn.permute(): incompatible function arguments: {wanted}"


def test_certainty_is_that_of_the_least_certain_operation() -> None:
    assert combine_confidence(["ttnn.relu", "ttnn.add_"]) == "exact"
    assert combine_confidence(["ttnn.relu", "ttnn.nobody_made_this"]) == "none"


@pytest.fixture
def made_up() -> Iterator[OperationRecord]:
    """An operation that only this test knows."""
    yield RECORDS.add(
        OperationRecord(
            "made_up",
            "unary",
            unary,
            tuple(format_call("made_up", [TENSOR], 3)),
            (Argument("power", 0, samples=(2, 3)),),
        )
    )
    RECORDS.remove("made_up")


def test_one_record_is_all_an_operation_needs(made_up: OperationRecord) -> None:
    # GIVEN a record that was added WHEN it is asked for THEN the twin, its certainty and its random calls are there
    outcome = TwinEngine(board="n150").ask(made_up.example)
    assert (outcome.status, outcome.confidence, outcome.l1_parts["dataflow_buffers"]) == ("pass", "exact", 8192)
    assert combine_confidence(["ttnn.made_up"]) == "exact"
    *_, call = draw_call(made_up, RandomChoose("made_up"))
    assert (call["call"], call["args"][1] in (2, 3)) == ("ttnn.made_up", True)
