# SPDX-License-Identifier: Apache-2.0
"""Calls with something left out, added or put into shards: what the library does not take is not called a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.choices import HypothesisChoose, calls
from oracle.conftest import share_of_the_run
from oracle.draws import sample
from oracle.sides import Side, twin_side
from ttmem.twin.operations import EXACT

pytestmark = pytest.mark.oracle

Step = dict[str, Any]


@st.composite
def spoiled_calls(draw: st.DrawFn) -> list[Step]:
    """A call of the records that may be one no longer."""
    *made, call = draw(calls())
    choose = HypothesisChoose(draw)
    spoil = choose.one_of((_without_argument, _without_option, _elsewhere, _into_a_tensor, _in_shards))
    return spoil(choose, made, call)


def _without_argument(choose: HypothesisChoose, made: list[Step], call: Step) -> list[Step]:
    return [*made, {**call, "args": call["args"][: -choose.integer(1, 2)]}]


def _without_option(choose: HypothesisChoose, made: list[Step], call: Step) -> list[Step]:
    if not call["kwargs"]:
        return _without_argument(choose, made, call)
    gone = choose.one_of(list(call["kwargs"]))
    return [*made, {**call, "kwargs": {name: value for name, value in call["kwargs"].items() if name != gone}}]


def _elsewhere(choose: HypothesisChoose, made: list[Step], call: Step) -> list[Step]:
    """With a wish for the result's place."""
    return [*made, {**call, "kwargs": {**call["kwargs"], "memory_config": {"memory": choose.one_of(sample.MEMORIES)}}}]


def _into_a_tensor(choose: HypothesisChoose, made: list[Step], call: Step) -> list[Step]:
    """Into one of its inputs, or into another tensor like the first."""
    tensors = [step for step in made if "alloc" in step]
    if not tensors:
        return _elsewhere(choose, made, call)
    other = {**tensors[0], "alloc": "other", "memory": choose.one_of(sample.MEMORIES), "shard": None}
    target = choose.one_of([*(step["alloc"] for step in tensors), "other"])
    name = choose.one_of(("output_tensor", "output_tensor", "optional_output_tensor"))
    return [*made, other, {**call, "kwargs": {**call["kwargs"], name: {"tensor": target}}}]


def _in_shards(choose: HypothesisChoose, made: list[Step], call: Step) -> list[Step]:
    for number, step in enumerate(made):
        if "alloc" in step and len(step["shape"]) > 1 and not step.get("shard") and choose.integer(0, 3):
            made[number] = step | sample.any_place(choose, step["shape"], step["layout"], sharded=True)
    return [*made, call]


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_no_call_passes_that_the_library_does_not_take(real_device: Callable[[str], Side], board: str) -> None:
    side = real_device(board)
    side.forget()  # what other tests left on it would clash with what these calls need
    real, twin = side.engine, twin_side(board).engine

    @share_of_the_run(0.02, 1)
    @given(spoiled_calls())
    def compare(steps: list[Step]) -> None:
        ours = twin.ask(steps)
        if not ours.ok and ours.status != "invalid":
            return
        theirs = real.ask(steps, timeout=60.0)
        if len(theirs.answers) < len(steps):
            return  # an allocation failed, or the call killed the library
        if ours.ok:
            assert theirs.ok, (steps, theirs.message)
        elif ours.confidence == EXACT:
            assert not theirs.ok, (steps, ours.message)

    compare()
