# SPDX-License-Identifier: Apache-2.0
"""Operations in a tight L1: the address of every result, every out-of-memory text, every clash, what stays behind."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from oracle.call_strategies import CALLS, LOOSE_CALLS, Case
from oracle.conftest import cases, is_long_run
from oracle.real import RealDevice
from oracle.twin import TwinDevice
from ttmem._errors import TtmemError
from ttmem.allocator.operations import BOUNDED, EXACT, RULES, Call, plan_call
from ttmem.hardware import MEMORIES

pytestmark = pytest.mark.oracle

NEVER_EXACT = {"to_layout"}
"""Rules that only give bounds: their results are compared below, a clash cannot be predicted."""
CALLS_PER_CHAIN = 6


def test_every_rule_has_a_strategy() -> None:
    assert {rule.name for rule in RULES} == set(CALLS) | NEVER_EXACT


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """The twin does not know which cores an operation uses, nor the number of its program."""
    if "error" not in answer:
        return answer
    text = re.sub(r" in program \d+| on core range \[[^]]*\]", "", answer["error"])
    return {**answer, "error": text}


class Chain:
    """Runs steps on both sides, as long as the twin calls them exact, and compares after each."""

    def __init__(self, real: RealDevice, twin: TwinDevice) -> None:
        self.real, self.twin = real, twin
        self.steps: list[dict[str, Any]] = []
        self.found: list[dict[str, Any]] = []
        self.names = 0

    def do(self, step: dict[str, Any]) -> bool:
        self.steps.append(step)
        self.found += self.twin.run([step])
        return bool(self.found[-1]["ok"])

    def fill(self, left_bytes: int) -> None:
        """Leave so much of L1 below one interleaved tensor with a row per bank."""
        pool = self.twin.device.memory_map.l1
        if 0 < left_bytes < pool.bytes_per_bank:
            shape = [pool.banks, pool.bytes_per_bank - left_bytes]
            self.do({"alloc": "filler", "shape": shape, "dtype": "uint8", "layout": "row_major", "memory": "L1"})

    def call(self, case: Case) -> None:
        tensors, step = case
        inputs = []
        for tensor in tensors:
            self.names += 1
            if not self.do({**tensor, "alloc": f"t{self.names}"}):
                break
            inputs.append(f"t{self.names}")
        if len(inputs) == len(tensors) and self.confidence(step, inputs) == EXACT:
            self.names += 1
            self.do({**step, "inputs": inputs, "out": f"r{self.names}"})
        for name in inputs[::2]:  # every other tensor stays and presses on the next call
            self.do({"free": name})
        self.do({"view": "L1", "blocks": False})
        self.do({"view": "DRAM", "blocks": False})

    def confidence(self, step: dict[str, Any], inputs: list[str]) -> str:
        memory = MEMORIES.find(step["memory"]) if "memory" in step else None
        specs = tuple(self.twin.tensors[name][0] for name in inputs)
        try:
            plan = plan_call(Call(step["op"], specs, step.get("args", {}), memory), self.twin.device.memory_map)
        except TtmemError:
            return ""
        return plan.confidence

    def compare(self) -> None:
        self.do({"clear": True})
        expected = self.real.run(self.steps)
        for step, theirs, ours in zip(self.steps, expected, self.found, strict=True):
            assert comparable(ours) == comparable(theirs), step


@pytest.mark.parametrize(
    ("board", "opened"),
    [
        ("n150", {"worker_l1_size": 200_000}),
        ("n150", {}),
        ("n300", {"dispatch": "row", "worker_l1_size": 300_000}),
        ("p150", {"worker_l1_size": 150_000}),
        ("p100", {"worker_l1_size": 250_000}),
    ],
)
def test_chains_of_calls_leave_the_same_memory(
    real_device: Callable[[str], RealDevice], board: str, opened: dict[str, Any]
) -> None:
    real, twin = real_device(board), TwinDevice(board)
    real.open(**opened)
    twin.open(**opened)

    @settings(
        max_examples=cases(0.04, CALLS_PER_CHAIN),
        deadline=None,
        database=None,
        derandomize=not is_long_run(),
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.lists(st.one_of([strategy() for strategy in CALLS.values()]), min_size=1, max_size=2 * CALLS_PER_CHAIN),
        st.sampled_from([0, 0, 12_000, 24_000, 48_000, 100_000]),
    )
    def compare(calls: list[Case], left_bytes: int) -> None:
        chain = Chain(real, twin)
        chain.fill(left_bytes)
        for case in calls:
            chain.call(case)
        chain.compare()

    compare()


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_bounded_plans_have_the_right_result_and_never_too_much(
    real_device: Callable[[str], RealDevice], board: str
) -> None:
    real, twin = real_device(board), TwinDevice(board)
    real.open()
    twin.open()

    @settings(
        max_examples=cases(0.02, 1),
        deadline=None,
        database=None,
        derandomize=not is_long_run(),
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of([strategy() for strategy in LOOSE_CALLS]))
    def compare(case: Case) -> None:
        chain = Chain(real, twin)
        tensors, step = case
        names = [f"t{number}" for number in range(len(tensors))]
        allocated = [chain.do({**tensor, "alloc": name}) for tensor, name in zip(tensors, names, strict=True)]
        if all(allocated) and chain.confidence(step, names) == BOUNDED:
            chain.do({**step, "inputs": names, "out": "result"})
        chain.do({"view": "L1", "blocks": False})
        chain.do({"clear": True})
        expected = real.run(chain.steps)
        for done, theirs, ours in zip(chain.steps, expected, chain.found, strict=True):
            if "op" in done and theirs["ok"]:
                # Temporaries decide where a result lands, so the address is not claimed; its size and shape are.
                assert {**ours, "address": 0} == {**theirs, "address": 0}, done
            if "op" in done and not ours["ok"]:
                # At least so much is needed: where the twin says no, the library says no.
                assert not theirs["ok"], done

    compare()
