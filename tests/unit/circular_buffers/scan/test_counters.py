# SPDX-License-Identifier: Apache-2.0
"""Kernels on counters: they end when the rules hold, and stop where a rule is broken."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ttmem.circular_buffers.scan.model import POP, PUSH, RESERVE, WAIT
from ttmem.circular_buffers.scan.rules.deadlock import UnrolledStep, run


def producer(step: int, laps: int, buffer: str = "a") -> list[UnrolledStep]:
    return [
        one
        for lap in range(laps)
        for one in (UnrolledStep(RESERVE, buffer, step, lap), UnrolledStep(PUSH, buffer, step, lap))
    ]


def consumer(step: int, laps: int, buffer: str = "a") -> list[UnrolledStep]:
    return [
        one
        for lap in range(laps)
        for one in (UnrolledStep(WAIT, buffer, step, lap), UnrolledStep(POP, buffer, step, lap))
    ]


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 40))
def test_steps_meet_exactly_when_the_buffer_holds_their_sum_less_the_common_divisor(
    p: int, c: int, capacity: int
) -> None:
    # GIVEN as many pages pushed as popped, and enough of them that the buffer must be reused
    laps = 40 // min(p, c) + 2
    blocked = run([producer(p, laps * c), consumer(c, laps * p)], {"a": capacity})
    assert (blocked == []) == (capacity >= p + c - math.gcd(p, c))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 20))
def test_an_end_is_reached_when_both_sides_keep_the_rules(step: int, depth: int, laps: int) -> None:
    chain = [producer(step, laps), [], consumer(step, laps, "b")]
    for lap in range(laps):
        chain[1] += [
            UnrolledStep(WAIT, "a", step, lap),
            UnrolledStep(RESERVE, "b", step, lap),
            UnrolledStep(PUSH, "b", step, lap),
            UnrolledStep(POP, "a", step, lap),
        ]
    assert run(chain, {"a": step * depth, "b": step}) == []


def test_who_waits_for_whom_is_told() -> None:
    [blocked] = run([producer(1, 3), consumer(1, 4)], {"a": 2})
    assert (blocked.kernel, blocked.step.kind, blocked.step.line, blocked.available) == (1, WAIT, 3, 0)
