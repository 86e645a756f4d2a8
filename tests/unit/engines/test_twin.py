# SPDX-License-Identifier: Apache-2.0
"""The twin as an engine: the steps, answers and outcomes of the real one, without its process."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from ttmem.engines.engine import EngineSettings, open_engine
from ttmem.engines.ttnn import TtnnEngine
from ttmem.engines.twin import TwinEngine

TILE = {"shape": [1, 1, 32, 32], "dtype": "bfloat16", "layout": "tile", "memory": "L1"}
BIG = {"shape": [1, 1, 2048, 32 * 64 * 9], "dtype": "bfloat16", "layout": "tile", "memory": "L1"}
"""1,179,648 bytes per bank: one fits into an n150's L1, two do not."""


@pytest.fixture
def engine() -> TwinEngine:
    return TwinEngine(board="n150")


def call(name: str, *tensors: str, out: str | None = "y", **options: Any) -> dict[str, Any]:
    step = {"call": f"ttnn.{name}", "args": [{"tensor": tensor} for tensor in tensors], "kwargs": options}
    return step if out is None else {**step, "out": out}


def held(engine: TwinEngine, memory: str = "L1") -> int:
    (answer,) = engine.ask([{"view": memory}]).answers
    return int(answer["allocated"])


def test_both_engines_are_asked_alike() -> None:
    for name in ("ask", "ask_all", "close"):
        ours, theirs = (inspect.signature(getattr(kind, name)) for kind in (TwinEngine, TtnnEngine))
        assert list(ours.parameters) == list(theirs.parameters), name
    assert isinstance(open_engine("twin", EngineSettings()), TwinEngine)
    assert isinstance(open_engine("mock", EngineSettings()), TtnnEngine)


def test_an_outcome_has_what_each_step_came_to(engine: TwinEngine) -> None:
    outcome = engine.ask([{"alloc": "x", **TILE}, call("relu", "x"), {"free": "x"}, {"view": "L1"}])
    assert (outcome.status, outcome.confidence, outcome.doubt) == ("pass", "exact", "")
    allocated, called, freed, view = outcome.answers
    assert (allocated["address"], allocated["padded"], allocated["pages"]) == (1497088, [1, 1, 32, 32], 1)
    assert [result["address"] for result in called["results"]] == [1495040]
    assert (freed, view["allocated"]) == ({"ok": True}, 2048)
    assert outcome.peak_bytes_per_bank == {"DRAM": 0, "L1": 4096, "L1_SMALL": 0, "TRACE": 0}
    assert outcome.l1_parts == {"tensors": 4096, "circular_buffers": 0, "dataflow_buffers": 8192, "scratchpads": 0}


def test_nothing_stays_behind_unless_it_is_asked_to(engine: TwinEngine) -> None:
    # GIVEN a tensor that was asked to stay
    engine.ask([{"alloc": "x", **TILE}], isolated=False)
    # WHEN cases use it and leave more behind, or free it THEN the next one finds it as it was
    assert engine.ask([call("relu", "x"), {"view": "L1"}]).answers[1]["allocated"] == 4096
    assert engine.ask([{"free": "x"}, {"view": "L1"}]).answers[1]["allocated"] == 0
    assert held(engine) == 2048
    # AND tables of cached programs go and stay with it
    reshape = {"call": "ttnn.reshape", "args": [{"tensor": "x"}, [1, 1, 16, 64]], "out": "y"}
    engine.ask([reshape])
    assert held(engine, "DRAM") == 0
    engine.ask([reshape, {"clear": "tensors"}], isolated=False)
    assert (held(engine), held(engine, "DRAM") > 0) == (0, True)
    engine.ask([{"clear": "cache"}], isolated=False)
    assert held(engine, "DRAM") == 0


def test_a_failed_step_does_not_stop_the_next_unless_asked(engine: TwinEngine) -> None:
    steps = [{"alloc": "a", **BIG}, {"alloc": "b", **BIG}, {"alloc": "c", **TILE}]
    outcome = engine.ask(steps)
    assert [answer["ok"] for answer in outcome.answers] == [True, False, True]
    assert (outcome.status, outcome.failure_class, outcome.memory) == ("oom", "oom/capacity", "L1")
    assert (outcome.needed_bytes, outcome.bytes_per_bank) == (64 * 1179648, 1179648)
    assert len(engine.ask(steps, stop=True).answers) == 2


@pytest.mark.parametrize(
    ("steps", "status", "failure_class", "words"),
    [
        ([{"alloc": "a", **BIG}, call("add", "a", "a", out=None)], "oom", "oom/capacity", "Out of Memory"),
        (
            [
                {"alloc": "a", **BIG, "shape": [1, 1, 2048, 32 * 679]},
                call("exp", "a", memory_config={"memory": "DRAM"}),
            ],
            "clash",
            "buffers/clash",
            "dataflow buffers clash with L1 buffers",
        ),
        ([{"alloc": "a", **TILE, "dtype": "bfloat8_b", "layout": "row_major"}], "invalid", "", "Only TILE layout"),
        ([call("relu", "nobody")], "invalid", "", "there is no tensor 'nobody'"),
        ([{"sing": "a"}], "invalid", "", "unknown step 'sing'"),
        (
            [{"alloc": "a", **TILE}, call("nobody_made_this", "a")],
            "unsupported",
            "",
            "not judged: the twin has no rule for",
        ),
    ],
)
def test_what_can_go_wrong(
    engine: TwinEngine, steps: list[dict[str, Any]], status: str, failure_class: str, words: str
) -> None:
    outcome = engine.ask(steps)
    assert (outcome.status, outcome.failure_class) == (status, failure_class)
    assert words in outcome.message


def test_a_buffer_goes_with_its_last_name(engine: TwinEngine) -> None:
    view = {"call": "ttnn.reshape", "args": [{"tensor": "x"}, [32, 32]], "out": "v"}
    given = [{"alloc": "x", **TILE}, view]
    # a view keeps it, force does not ask, and freeing the view afterwards frees nothing of others
    assert engine.ask([*given, {"free": "x", "force": False}, {"view": "L1"}]).answers[-1]["allocated"] == 2048
    forced = [*given, {"free": "x"}, {"alloc": "z", **TILE}, {"free": "v"}, {"view": "L1"}]
    assert engine.ask(forced).answers[-1]["allocated"] == 2048
    # a name that is given again lets go of what it had, and a result without a name is gone
    again = [{"alloc": "x", **TILE}, {"alloc": "x", **TILE}, call("relu", "x", out=None), {"view": "L1"}]
    assert engine.ask(again).answers[-1]["allocated"] == 2048


def test_in_place_forms_take_no_new_buffer(engine: TwinEngine) -> None:
    given = [{"alloc": "a", **TILE}, {"alloc": "b", **TILE}]
    for step in (call("add_", "a", "b"), call("relu", "a", output_tensor={"tensor": "a"})):
        *_, called, view = engine.ask([*given, step, {"view": "L1"}]).answers
        assert (called["results"][0]["address"], view["allocated"]) == (1497088, 4096)


def test_what_a_call_makes_can_be_told_where_there_is_no_record(engine: TwinEngine) -> None:
    given = {"alloc": "x", **TILE}
    elementwise = engine.ask([given, {**call("nobody_made_this", "x"), "makes": "elementwise"}, {"view": "L1"}])
    assert (elementwise.is_judged, elementwise.confidence) == (False, "bounded")
    assert elementwise.answers[-1]["allocated"] == 4096
    shaped = engine.ask([given, {**call("nobody_made_this", "x"), "makes": [[1, 1, 64, 64]]}])
    assert (shaped.status, shaped.is_judged, shaped.confidence) == ("unsupported", False, "unknown")
    why = "the twin has no rule for ttnn.nobody_made_this: inputs and the recorded results alone"
    assert shaped.message == f"not judged: {why}; ask --engine mock"
    assert shaped.answers[-1]["results"][0]["shape"] == [1, 1, 64, 64]
    assert shaped.doubt == why


def test_an_outcome_is_as_certain_as_its_least_certain_step(engine: TwinEngine) -> None:
    outcome = engine.ask([{"alloc": "x", **TILE}, call("add", "x", "x", activations=[]), call("relu", "x")])
    assert (outcome.confidence, outcome.doubt) == ("bounded", "calls with activations are not verified")
    assert not outcome.is_judged
