# SPDX-License-Identifier: Apache-2.0
"""What filled a memory at its peak: parts and the unattributed rest always sum to the state."""

from __future__ import annotations

from support.log_lines import BLACKHOLE, DEVICE, ONE_MB, TWO_MB, Log, tensor
from ttmem.analysis.consumers import alive_at_peak
from unit.analysis.test_lifetimes import MIB, op, parts


def test_what_no_tensor_accounts_for_is_shown_as_such() -> None:
    # GIVEN 100 MB that were uploaded before the run and no operation touches
    log = Log()
    log.start()
    log.op(op("%1", "relu", "%arg0", TWO_MB, TWO_MB), 102.0)
    log.free("%1", TWO_MB, 104.0)
    assert parts(log.profile()) == ({"%arg0": 2.0, "%1": 2.0}, 100.0)


def test_largest_first() -> None:
    log = Log()
    log.start()
    log.op(op("%1", "relu", "%arg0", ONE_MB, TWO_MB), 1.0)
    log.free("%1", TWO_MB, 3.0)
    live = alive_at_peak(log.profile())
    assert live is not None
    assert [life.name for life in live.tensors] == ["%1", "%arg0"]
    assert (live.memory, live.total_bytes_per_bank) == ("DRAM", 3 * MIB)
    assert (live.peak.at_index, live.peak.caused_by_index) == (1, 0)


def test_each_memory_has_its_own_tensors() -> None:
    # GIVEN a height-sharded tensor of 16 tiles per core: 32 KiB in every L1 bank, printed as 0.031
    sharded = tensor("32768x32", "16x1", buffer="l1", grid="8x8", placement="height_sharded")
    log = Log()
    log.start()
    log.op(op("%1", "to_memory_config", "%arg0", TWO_MB, sharded), 2.0)
    log.free("%1", sharded, 2.0, l1=0.031)
    profile = log.profile()
    assert parts(profile) == ({"%arg0": 2.0}, 0.0)
    live = alive_at_peak(profile, "L1")
    assert live is not None
    assert [(life.name, life.bytes_per_bank) for life in live.tensors] == [("%1", 32768)]
    assert abs(live.unattributed_bytes_per_bank) <= live.peak.error_bytes


def test_a_memory_without_states_has_no_live_set() -> None:
    log = Log()
    log.start()
    log.op(op("%1", "relu", "%arg0", TWO_MB, TWO_MB))
    assert alive_at_peak(log.profile()) is None


def test_pages_are_dealt_over_the_banks_of_the_chip() -> None:
    # GIVEN Blackhole's 8 banks: 12,288 tiles are 1,536 in each, 3 MiB
    log = Log(banks=BLACKHOLE)
    log.start()
    log.op(op("%1", "relu", "%arg0", TWO_MB, TWO_MB), 3.0)
    log.free("%1", TWO_MB, 6.0)
    assert parts(log.profile()) == ({"%arg0": 3.0, "%1": 3.0}, 0.0)


def test_a_peak_after_the_submission_holds_what_the_run_left() -> None:
    # GIVEN a last operation whose result is only seen after the submission
    log = Log()
    log.block("before submit", 2.0)
    log.start()
    log.op(op("%1", "relu", "%arg0", TWO_MB, ONE_MB), 2.0)
    log.free("%1", ONE_MB, 3.0)
    log.op(op("%2", "relu", "%arg0", TWO_MB, TWO_MB), 2.0)
    log.finish()
    log.block("after submit", 4.0)
    profile = log.profile()
    assert parts(profile) == ({"%arg0": 2.0, "%2": 2.0}, 0.0)


def test_a_peak_before_the_submission_holds_the_arguments() -> None:
    # GIVEN a run that frees its argument at once
    log = Log()
    log.block("before submit", 5.0)
    log.start()
    log.op(DEVICE, 5.0)
    log.free("%arg0", TWO_MB, 5.0)
    log.op(op("%1", "relu", "%arg1", ONE_MB, ONE_MB), 3.0)
    log.finish()
    assert parts(log.profile()) == ({"%arg0": 2.0, "%arg1": 1.0}, 2.0)


def test_states_without_operations_are_all_unattributed() -> None:
    log = Log()
    log.block("before operation MatmulOp", 7.0)
    assert parts(log.profile()) == ({}, 7.0)


def test_the_worst_rank_is_taken_apart() -> None:
    log = Log()
    for rank, before in ((0, 2.0), (1, 50.0)):
        log.prefix = f"[1,{rank}]<stdout>:"
        log.start()
        log.op(op("%1", "relu", "%arg0", TWO_MB, TWO_MB), before)
        log.free("%1", TWO_MB, before + 2.0)
    assert parts(log.profile()) == ({"%arg0": 2.0, "%1": 2.0}, 48.0)
