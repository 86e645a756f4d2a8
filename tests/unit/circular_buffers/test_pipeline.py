# SPDX-License-Identifier: Apache-2.0
"""The network of kernels: closed forms, conservation, monotony, and hangs where the rules are broken."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from ttmem.base.errors import BadInputError
from ttmem.circular_buffers.pipeline import (
    RESERVE,
    WAIT,
    KernelStep,
    PipelineRun,
    SimulatedKernel,
    busy,
    pop,
    push,
    reserve,
    run,
    wait,
)

cycles = st.integers(1, 500).map(float)
sync = st.integers(0, 40).map(float)


def wait_cycle(found: PipelineRun) -> tuple[str, ...]:
    """The kernels that wait for each other in a ring, the first one repeated at the end; empty without a ring."""
    waits_for = {blocked.kernel: blocked.waits_for for blocked in found.deadlock}
    for first in waits_for:
        seen = [first]
        following = waits_for[first]
        while following in waits_for and following not in seen:
            seen.append(following)
            following = waits_for[following]
        if following in seen:
            return (*seen[seen.index(following) :], following)
    return ()


def stream(
    blocks: int,
    batch: int,
    read: Sequence[float],
    compute: float,
    write: Sequence[float],
    depths: tuple[int, int],
    sync_cycles: float,
) -> PipelineRun:
    """reader -> in -> compute -> out -> writer, ``batch`` tiles at a time."""
    reader: list[KernelStep] = []
    middle: list[KernelStep] = []
    writer: list[KernelStep] = []
    for block in range(blocks):
        reader += [reserve("in", batch), busy(read[block]), push("in", batch)]
        middle += [wait("in", batch), reserve("out", batch), busy(compute), pop("in", batch), push("out", batch)]
        writer += [wait("out", batch), busy(write[block]), pop("out", batch)]
    kernels = (SimulatedKernel("reader", reader), SimulatedKernel("compute", middle), SimulatedKernel("writer", writer))
    return run(kernels, {"in": depths[0], "out": depths[1]}, sync_cycles=sync_cycles)


def test_two_kernels_by_hand() -> None:
    # GIVEN a reader of 10 cycles and a consumer of 4, one page of depth, 1 cycle until a handshake is seen
    reader = [reserve("a", 1), busy(10), push("a", 1)] * 2
    compute = [wait("a", 1), busy(4), pop("a", 1)] * 2
    # WHEN they run
    found = run((SimulatedKernel("reader", reader), SimulatedKernel("compute", compute)), {"a": 1}, sync_cycles=1)
    # THEN: page seen at 11, popped at 15, room seen at 16, second page pushed at 26, seen at 27, done at 31
    assert found.makespan_cycles == 31
    assert found.kernels["reader"].waits == {(RESERVE, "a"): 6}
    assert found.kernels["compute"].waits == {(WAIT, "a"): 23}
    assert found.kernels["compute"].first_wait_cycles == 11
    assert found.buffers["a"].push_cycles == [10, 26]
    assert found.buffers["a"].pop_cycles == [15, 31]
    assert found.buffers["a"].occupancy(31) == (pytest.approx((5 + 5) / 31), 1)


@given(cycles, cycles, cycles, sync, st.integers(1, 4), st.integers(1, 6), st.integers(1, 6))
@examples(150)
def test_constant_times_match_the_closed_form(
    read: float, compute: float, write: float, sync_cycles: float, batch: int, in_blocks: int, out_blocks: int
) -> None:
    """Period per block = the slowest stage, or a round trip through a buffer shared by its blocks."""
    blocks = 120
    depths = (in_blocks * batch, out_blocks * batch)
    found = stream(blocks, batch, [read] * blocks, compute, [write] * blocks, depths, sync_cycles)
    period = max(
        read,
        compute,
        write,
        (read + compute + 2 * sync_cycles) / in_blocks,
        (compute + write + 2 * sync_cycles) / out_blocks,
    )
    start_and_end = read + compute + write + 2 * sync_cycles
    assert found.makespan_cycles >= (blocks - 1) * period * (1 - 1e-12) - in_blocks * period - out_blocks * period
    assert found.makespan_cycles <= (blocks - 1) * period + start_and_end + (in_blocks + out_blocks) * period


@given(cycles, cycles, cycles, st.integers(1, 4))
@examples(60)
def test_single_and_double_buffering_without_sync_are_exact(
    read: float, compute: float, write: float, batch: int
) -> None:
    """d = b: max(R, W) + C per block; d >= 2b: max(R, C, W); the first and last blocks aside."""
    blocks = 50
    times = ([read] * blocks, compute, [write] * blocks)
    single = stream(blocks, batch, *times, (batch, batch), 0.0).makespan_cycles
    double = stream(blocks, batch, *times, (2 * batch, 2 * batch), 0.0).makespan_cycles
    assert single == (blocks - 1) * (max(read, write) + compute) + read + compute + write
    assert double == (blocks - 1) * max(read, compute, write) + read + compute + write


@given(st.data())
@examples(80)
def test_more_depth_never_costs_time(data: st.DataObject) -> None:
    blocks, batch = data.draw(st.integers(1, 25)), data.draw(st.integers(1, 3))
    times = st.lists(cycles, min_size=blocks, max_size=blocks)
    read, write, compute = data.draw(times), data.draw(times), data.draw(cycles)
    depths = [data.draw(st.integers(1, 6)) * batch for _ in range(2)]
    more = [depth + data.draw(st.integers(0, 4)) for depth in depths]
    sync_cycles = data.draw(sync)
    shallow = stream(blocks, batch, read, compute, write, (depths[0], depths[1]), sync_cycles)
    deep = stream(blocks, batch, read, compute, write, (more[0], more[1]), sync_cycles)
    assert deep.makespan_cycles <= shallow.makespan_cycles


@given(st.data())
@examples(80)
def test_tiles_are_conserved_and_time_is_accounted_for(data: st.DataObject) -> None:
    blocks, batch = data.draw(st.integers(1, 25)), data.draw(st.integers(1, 3))
    times = st.lists(cycles, min_size=blocks, max_size=blocks)
    depth = data.draw(st.integers(1, 4)) * batch
    found = stream(
        blocks, batch, data.draw(times), data.draw(cycles), data.draw(times), (depth, depth), data.draw(sync)
    )
    assert not found.deadlock
    for trace in found.buffers.values():
        assert len(trace.push_cycles) == len(trace.pop_cycles) == blocks * batch
        assert trace.left_pages == 0
        assert all(pushed <= popped for pushed, popped in zip(trace.push_cycles, trace.pop_cycles, strict=True))
        mean, highest = trace.occupancy(found.makespan_cycles)
        assert 0 < mean <= highest <= depth
    for times_of in found.kernels.values():
        assert times_of.busy_cycles + times_of.stalled_cycles == pytest.approx(times_of.end_cycles)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 12))
@settings(deadline=None)
def test_the_order_of_the_kernels_does_not_matter(batch: int, depth_blocks: int, blocks: int) -> None:
    reader = [reserve("a", batch), busy(7), push("a", batch)] * blocks
    compute = [wait("a", batch), busy(5), pop("a", batch)] * blocks
    kernels = [SimulatedKernel("reader", reader), SimulatedKernel("compute", compute)]
    depths = {"a": depth_blocks * batch}
    forward, backward = run(kernels, depths), run(kernels[::-1], depths)
    assert (forward.makespan_cycles, forward.kernels, forward.buffers) == (
        backward.makespan_cycles,
        backward.kernels,
        backward.buffers,
    )


# Rules of the kernels: what keeps them comes to its end, what breaks them hangs, always.


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 10))
@settings(deadline=None)
def test_r1_asking_for_more_than_the_capacity_hangs(capacity: int, asked: int, blocks: int) -> None:
    producer = SimulatedKernel("producer", [reserve("a", asked), push("a", asked)] * blocks)
    consumer = SimulatedKernel("consumer", [wait("a", asked), pop("a", asked)] * blocks)
    found = run((producer, consumer), {"a": capacity})
    assert bool(found.deadlock) == (asked > capacity)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 24))
@settings(deadline=None)
def test_r4_pushed_and_popped_must_be_equal(
    step_in: int, times_in: int, step_out: int, times_out: int, capacity: int
) -> None:
    producer = SimulatedKernel("producer", [reserve("a", step_in), push("a", step_in)] * times_in)
    consumer = SimulatedKernel("consumer", [wait("a", step_out), pop("a", step_out)] * times_out)
    found = run((producer, consumer), {"a": max(capacity, step_in + step_out)})  # room for both: no hang for room alone
    pushed, popped = step_in * times_in, step_out * times_out
    if pushed == popped:
        assert not found.deadlock
    elif pushed < popped:
        assert [blocked.kernel for blocked in found.deadlock] == ["consumer"]
    else:
        assert bool(found.deadlock) == (pushed - popped > found.buffers["a"].capacity_pages)
        assert found.deadlock or found.buffers["a"].left_pages == pushed - popped


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 8), st.integers(2, 6))
@settings(deadline=None)
def test_r5_a_self_loop_needs_room_for_what_it_holds_and_what_it_reserves(
    held: int, reserved: int, capacity: int, rounds: int
) -> None:
    steps = [reserve("p", held), push("p", held)]
    for _ in range(rounds):
        steps += [wait("p", held), reserve("p", reserved), push("p", reserved), pop("p", reserved)]
    found = run((SimulatedKernel("compute", steps),), {"p": capacity})
    assert bool(found.deadlock) == (capacity < held + reserved)
    if found.deadlock and capacity >= held:
        assert wait_cycle(found) == ("compute", "compute")


@given(st.integers(1, 4), st.integers(0, 4))
@settings(deadline=None)
def test_r8_two_kernels_that_wait_for_each_other(capacity: int, primed: int) -> None:
    first: list[KernelStep] = []
    if primed:
        first += [reserve("b", 1), push("b", 1)]
    first += [wait("a", 1), pop("a", 1), reserve("b", 1), push("b", 1)]
    second = [wait("b", 1), pop("b", 1), reserve("a", 1), push("a", 1)]
    if primed:
        second += [wait("b", 1), pop("b", 1)]
    found = run((SimulatedKernel("first", first), SimulatedKernel("second", second)), {"a": capacity, "b": capacity})
    if primed:
        assert not found.deadlock
    else:
        assert wait_cycle(found) == ("first", "second", "first")
        assert str(found.deadlock[0]) == "first: wait_front(a, 1) with 0 there, waits for second"


@given(st.integers(1, 12), st.integers(1, 12))
@settings(deadline=None)
def test_r9_depth_must_cover_the_skew(tiles: int, capacity: int) -> None:
    """The reader feeds two buffers in turn, the consumer drains the first one completely before it takes the second."""
    reader = [reserve("a", 1), push("a", 1), reserve("b", 1), push("b", 1)] * tiles
    consumer = [wait("a", 1), pop("a", 1)] * tiles + [wait("b", 1), pop("b", 1)] * tiles
    found = run((SimulatedKernel("reader", reader), SimulatedKernel("consumer", consumer)), {"a": tiles, "b": capacity})
    assert bool(found.deadlock) == (capacity < tiles - 1)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4))
@settings(deadline=None)
def test_batches_that_keep_the_rules_never_hang(produced: int, consumed: int, laps: int) -> None:
    """A lumpy pair needs room for one push beside one pop."""
    total = produced * consumed * laps
    producer = SimulatedKernel("producer", [reserve("a", produced), busy(3), push("a", produced)] * (total // produced))
    consumer = SimulatedKernel("consumer", [wait("a", consumed), busy(2), pop("a", consumed)] * (total // consumed))
    capacity = produced * consumed * ceil((produced + consumed) / (produced * consumed))
    assert not run((producer, consumer), {"a": capacity}).deadlock


def test_nobody_on_the_other_side() -> None:
    found = run((SimulatedKernel("alone", [wait("a", 1)]),), {"a": 1})
    assert found.deadlock[0].waits_for is None
    assert wait_cycle(found) == ()


@pytest.mark.parametrize(
    ("kernels", "complaint"),
    [
        ((SimulatedKernel("a", [push("x", 2)]),), "push of 2 into x, which has no room"),
        ((SimulatedKernel("a", [pop("x", 1)]),), "pop of 1 from x, which does not hold them"),
        ((SimulatedKernel("a", [wait("y", 1)]),), "uses buffer y, which has no capacity"),
        ((SimulatedKernel("a", [push("x", 1)]), SimulatedKernel("b", [push("x", 1)])), "two producers"),
        ((SimulatedKernel("a", [wait("x", 1)]), SimulatedKernel("b", [wait("x", 1)])), "two consumers"),
    ],
)
def test_what_no_program_may_do_is_refused(kernels: tuple[SimulatedKernel, ...], complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint):
        run(kernels, {"x": 1})
