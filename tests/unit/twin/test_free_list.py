# SPDX-License-Identifier: Apache-2.0
"""The free list against the rule in its plainest form, and its growth with the number of blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from ttmem.twin import free_list as module
from ttmem.twin.free_list import FreeList


class Plain:
    """First fit as one reads it: a sorted list of free blocks, searched from one end, merged on every free."""

    def __init__(self, base, total, grows_down):
        self.free_blocks, self.taken, self.grows_down = [(base, total)] if total else [], {}, grows_down

    def allocate(self, size):
        order = reversed(self.free_blocks) if self.grows_down else self.free_blocks
        for start, length in order:
            if length >= size:
                index = self.free_blocks.index((start, length))
                address = start + length - size if self.grows_down else start
                rest = (start if self.grows_down else start + size, length - size)
                self.free_blocks[index : index + 1] = [rest] if rest[1] else []
                self.taken[address] = size
                return address
        return None

    def free(self, address):
        merged = []
        for start, length in sorted([*self.free_blocks, (address, self.taken.pop(address))]):
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        self.free_blocks = merged


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of eight blocks, so that a short script splits and joins them."""
    monkeypatch.setattr(module, "_CHUNK_BLOCKS", 8)


actions = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 20), st.integers(0, 1000)), min_size=20, max_size=300)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("grows_down", [True, False])
def test_every_step_is_plain_first_fit(grows_down):
    @examples(150)
    @given(actions, st.sampled_from([0, 640, 3200, 32000]))
    def compare(script, total):
        ours, plain, live = FreeList(96, total, grows_down=grows_down), Plain(96, total, grows_down), []
        for action, size, pick in script:
            if action < 4 and live:
                address = live.pop(pick % len(live))
                assert ours.free(address)
                plain.free(address)
            else:
                address = ours.allocate(32 * size)
                assert address == plain.allocate(32 * size)
                live += [address] if address is not None else []
            assert ours.largest_free_bytes == max((length for _, length in plain.free_blocks), default=0)
            assert ours.free_bytes == sum(length for _, length in plain.free_blocks)
            assert ours.lowest_taken_address == min(plain.taken, default=None)
        blocks = [(a, s, False) for a, s in plain.free_blocks] + [(a, s, True) for a, s in plain.taken.items()]
        assert ours.blocks() == sorted(blocks)

    compare()


@pytest.mark.usefixtures("small_chunks")
@examples(150)
@given(st.lists(st.tuples(st.booleans(), st.integers(-2, 42), st.integers(0, 6)), max_size=150))
def test_a_block_is_taken_where_it_is_wanted_and_nowhere_else(script):
    # GIVEN 40 units, each free or not
    ours, taken = FreeList(3200, 40 * 32, grows_down=False), {}
    for takes, unit, units in script:
        wanted = range(unit, unit + units)
        if takes:
            # WHEN a block is wanted at an address, THEN it is taken if all of its units are free and there
            is_free = all(0 <= one < 40 and not any(one in held for held in taken.values()) for one in wanted)
            assert ours.take(3200 + 32 * unit, 32 * units) == is_free
            if is_free and units:
                taken[unit] = wanted
        else:
            assert ours.free(3200 + 32 * unit) == (taken.pop(unit, None) is not None)
        held = {one for units_held in taken.values() for one in units_held}
        runs = "".join("x" if one in held else "." for one in range(40)).split("x")
        assert ours.largest_free_bytes == 32 * max(map(len, runs))
        assert ours.allocated_bytes == 32 * len(held)


def test_growing_up_takes_the_lowest_block_and_growing_down_the_highest():
    up, down = FreeList(0, 320, grows_down=False), FreeList(0, 320, grows_down=True)
    assert [up.allocate(64), up.allocate(32), up.allocate(64)] == [0, 64, 96]
    assert [down.allocate(64), down.allocate(32), down.allocate(64)] == [256, 224, 160]
    up.free(0)
    down.free(256)
    assert (up.allocate(32), down.allocate(32)) == (0, 288)


def test_a_full_list_refuses_and_stays_as_it_was():
    free_list = FreeList(0, 64, grows_down=True)
    assert free_list.allocate(96) is None
    assert free_list.blocks() == [(0, 64, False)]


def test_an_unknown_address_is_ignored():
    free_list = FreeList(0, 64, grows_down=True)
    assert not free_list.free(32)


def test_a_checkpoint_is_not_touched_by_what_follows():
    free_list = FreeList(0, 1024, grows_down=False)
    kept = free_list.allocate(64)
    state = free_list.checkpoint()
    free_list.allocate(128)
    free_list.free(kept)
    free_list.restore(state)
    assert free_list.blocks() == [(0, 64, True), (64, 960, False)]
    assert free_list.allocated_bytes == 64
    free_list.free(kept)
    free_list.restore(state)
    assert free_list.lowest_taken_address == 0


def test_work_per_step_does_not_grow_with_the_pieces(monkeypatch):
    """Counted in looks at block sizes, not in seconds: 16 times the pieces may cost at most twice per step."""

    class Counting(list):
        looks = 0

        def __getitem__(self, index):
            Counting.looks += 1
            return super().__getitem__(index)

    def looks_per_step(pieces):
        free_list = FreeList(0, 64 * pieces, grows_down=False)
        addresses = [free_list.allocate(64) for _ in range(pieces)]
        for address in addresses[::2]:
            free_list.free(address)
        free_list._sizes = [Counting(chunk) for chunk in free_list._sizes]
        free_list._largest = Counting(free_list._largest)
        Counting.looks = 0
        for address in addresses[1:201:2]:
            free_list.free(address)
            free_list.allocate(64)
        return Counting.looks / 200

    assert looks_per_step(32_000) < 2 * looks_per_step(2_000) + 20
