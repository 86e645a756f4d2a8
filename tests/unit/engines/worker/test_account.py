# SPDX-License-Identifier: Apache-2.0
"""The worker's account of buffers: moments inside operations, reconciling, holes. No ttnn here."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ttmem.engines.worker.ledger import GIVE, LAUNCH, TAKE, AllocationLedger, Move
from ttmem.engines.worker.library import MemoryRegion
from ttmem.profile.tables import find_largest_free_block

POOLS = {"DRAM": MemoryRegion(12, 1000, 10_000), "L1": MemoryRegion(64, 0, 4096)}


def take(memory: str, address: int, size: int) -> Move:
    return Move(TAKE, memory, address, size, size * 12)


def give(memory: str, address: int) -> Move:
    return Move(GIVE, memory, address)


def test_without_temporaries_an_operation_is_fullest_at_its_end() -> None:
    account = AllocationLedger(POOLS, 32)
    effect = account.apply([take("DRAM", 1000, 60)])
    assert [buffer[1:] for buffer in effect.born] == [("DRAM", 1000, 64, 720)]
    assert effect.fullest == {"DRAM": (64, (effect.born[0].number,), (), 10_000 - 64)}
    assert account.allocated == {"DRAM": 64, "L1": 0}


def test_temporaries_make_a_fullest_moment_with_its_buffers() -> None:
    # GIVEN a weight of 320 B at the bottom
    account = AllocationLedger(POOLS, 32)
    weight = account.apply([take("DRAM", 1000, 320)]).born[0]
    # WHEN an operation takes two temporaries, gives the first back, takes its result and gives the second back
    effect = account.apply(
        [
            take("DRAM", 1320, 640),
            take("DRAM", 1960, 960),
            give("DRAM", 1320),
            take("DRAM", 2920, 32),
            give("DRAM", 1960),
        ]
    )
    # THEN the fullest moment is before the first one went
    first, second, result = effect.born
    top = effect.fullest["DRAM"]
    assert top.allocated == 320 + 640 + 960
    assert top.born == (first.number, second.number)
    assert top.gone == ()
    assert effect.gone == (first.number, second.number)
    assert account.live["DRAM"] == {1000: weight, 2920: result}


def test_what_an_operation_gives_back_first_is_not_there_at_its_fullest_moment() -> None:
    account = AllocationLedger(POOLS, 32)
    old = account.apply([take("L1", 0, 1024)]).born[0]
    effect = account.apply([give("L1", 0), take("L1", 0, 2048), take("L1", 2048, 64), give("L1", 2048)])
    assert effect.fullest["L1"].gone == (old.number,)
    assert effect.fullest["L1"].allocated == 2112


def test_l1_is_known_at_every_launch() -> None:
    account = AllocationLedger(POOLS, 32)
    account.apply([take("L1", 0, 1024)])
    effect = account.apply([Move(LAUNCH, program="a"), take("L1", 1024, 512), Move(LAUNCH, program="b"), give("L1", 0)])
    assert effect.l1_at_launch == (1024, 1536)
    assert effect.highest_l1 == 1536


def test_a_buffer_that_went_unseen_is_noticed_when_its_address_is_taken_again() -> None:
    account = AllocationLedger(POOLS, 32)
    lost = account.apply([take("DRAM", 1000, 320)]).born[0]
    effect = account.apply([take("DRAM", 1000, 320)])
    assert effect.gone == (lost.number,)
    assert effect.fullest["DRAM"].allocated == 320
    assert account.allocated["DRAM"] == 320


def test_the_librarys_table_wins() -> None:
    # GIVEN an account with two buffers
    account = AllocationLedger(POOLS, 32)
    kept, lost = account.apply([take("DRAM", 1000, 320), take("DRAM", 1320, 320)]).born
    # WHEN the library's table has only one of them, and another one
    came, gone = account.reconcile("DRAM", {1000: 320, 5000: 96})
    # THEN the account follows
    assert [buffer[1:] for buffer in came] == [("DRAM", 5000, 96, 96 * 12)]
    assert gone == [lost.number]
    assert account.allocated["DRAM"] == 416
    assert account.live["DRAM"][1000] is kept


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(1, 200)), max_size=40))
def test_the_fullest_moment_is_the_maximum_of_a_running_sum(script: list[tuple[bool, int, int]]) -> None:
    # GIVEN a random but possible sequence of moves
    account = AllocationLedger(POOLS, 32)
    there: dict[int, int] = {}
    moves, sums = [], [0]
    for takes, slot, size in script:
        address = 1000 + slot * 256
        if takes and slot not in there:
            there[slot] = -(-size // 32) * 32
            moves.append(take("DRAM", address, size))
        elif not takes and slot in there:
            del there[slot]
            moves.append(give("DRAM", address))
        sums.append(sum(there.values()))
    # WHEN it is one operation
    effect = account.apply(moves)
    # THEN the account agrees with the plain sums
    assert account.allocated["DRAM"] == sums[-1]
    if max(sums):
        assert effect.fullest["DRAM"].allocated == max(sums)
    else:
        assert effect.fullest == {}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(1, 400)), max_size=60))
def test_the_largest_free_block_is_that_of_what_is_there(script: list[tuple[int, int, int]]) -> None:
    # GIVEN moves that may lie over each other or outside of the pool, as when something was given back unseen
    account = AllocationLedger(POOLS, 32)
    banks, base, total = POOLS["DRAM"]
    for kind, slot, size in script:
        address = 800 + slot * 352
        if kind == 3:
            account.reconcile(
                "DRAM", {b.address: b.bytes_per_bank for b in account.live["DRAM"].values() if b.number % 3}
            )
            largest = account.find_largest_free("DRAM")
        else:
            effect = account.apply([take("DRAM", address, size) if kind else give("DRAM", address)])
            largest = effect.fullest["DRAM"].largest_free if effect.fullest else account.find_largest_free("DRAM")
        # THEN it is that of the plain list of them
        there = [(buffer.address, buffer.bytes_per_bank) for buffer in account.live["DRAM"].values()]
        assert largest == find_largest_free_block(base, total, there)
        allocated = sum(size for _, size in there)
        assert account.compute_view("DRAM") == (banks, total, allocated, total - allocated, largest)
