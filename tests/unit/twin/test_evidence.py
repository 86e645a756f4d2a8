# SPDX-License-Identifier: Apache-2.0
"""Boards learned from what real runs printed."""

from __future__ import annotations

import pytest

from ttmem.base.errors import BadInputError
from ttmem.hardware import open_board
from ttmem.twin.infer_banks import find_evidence, learn_board

OOM = (
    "Out of Memory: Not enough space to allocate {need} B {memory} buffer across {banks} banks, where each bank needs "
    "to store {each} B, but bank size is {bank} B (allocated: 0 B, free: {bank} B, largest free block: {bank} B)"
)


def oom(memory, banks, bank, need=1 << 33, each=1 << 30):
    return OOM.format(memory=memory, banks=banks, bank=bank, need=need, each=each)


def sizes(memory_map):
    return {p.memory.name: (p.banks, p.bytes_per_bank) for p in memory_map.pools}


def test_a_message_of_a_profiler_build_names_the_board_and_its_banks():
    # GIVEN the bank size of a Wormhole build with the profiler's region in DRAM
    learned = learn_board([oom("DRAM", 12, 1071821792)])
    # THEN it is an n150 whose DRAM starts above that region
    assert learned.board_name == "n150"
    assert (learned.dram.base_address, learned.dram.bytes_per_bank) == (1920032, 1071821792)
    assert learned.source == "learned from an out-of-memory message"
    assert learned.warnings == ("a build with barrier, profiler regions in DRAM",)


@pytest.mark.parametrize(
    ("bank", "base"),
    [(1073741792, 32), (1070773184, 2968640), (1072693184, 1048640)],
)
def test_bank_sizes_of_other_wormhole_builds(bank, base):
    assert learn_board([oom("DRAM", 12, bank)]).dram.base_address == base


def test_blackhole_with_the_profiler():
    learned = learn_board([oom("DRAM", 8, 4273390016)])
    assert (learned.board_name, learned.dram.bytes_per_bank) == ("p150", 4273390016)


def test_a_trace_region_cannot_be_told_from_a_message_alone_so_it_is_said():
    learned = learn_board([oom("DRAM", 12, 1048741792)])
    assert learned.dram.bytes_per_bank == 1048741792
    assert "23,951,392 B smaller than those of ttnn 0.81.1" in learned.warnings[0]


def test_banks_that_are_larger_are_called_so():
    learned = learn_board([oom("DRAM", 12, 1072693248)])
    assert learned.warnings[0].startswith("DRAM banks are 64 B larger than those of ttnn 0.81.1")


def test_an_l1_message_finds_the_release_and_the_small_region():
    # GIVEN 1329888 = 1499136 - 103712 (the base of ttnn 0.69) - 65536
    learned = learn_board([oom("L1", 64, 1329888)])
    assert sizes(learned)["L1"] == (64, 1329888)
    assert sizes(learned)["L1_SMALL"] == (64, 65536)
    assert learned.release.name == "0.69.0"


def test_an_l1_bank_of_no_known_release_is_taken_as_it_is():
    learned = learn_board([oom("L1", 64, 1331936)], "n150")
    assert sizes(learned)["L1"] == (64, 1331936)
    assert learned.l1_base_address == 1499136 - 1331936


def test_memory_blocks_of_a_log_are_completed_from_the_tables():
    lines = [
        "Always | INFO | Device DRAM memory state: MemoryView{numBanks: 12, totalBytesPerBank: 1023.000 MB, total",
        "Always | INFO | Device L1 memory state: MemoryView{numBanks: 64, totalBytesPerBank: 1.266 MB, totalBytes",
        "Always | INFO | Device L1_SMALL memory state: MemoryView{numBanks: 64, totalBytesPerBank: 0.062 MB, total",
        "Always | INFO | Device TRACE memory state: MemoryView{numBanks: 12, totalBytesPerBank: 0.000 MB, totalByt",
    ]
    learned = learn_board(lines)
    assert sizes(learned)["DRAM"] == (12, 1072693184)
    assert sizes(learned)["L1"] == (64, 1393312 - 65536)
    assert sizes(learned)["L1_SMALL"] == (64, 65536)
    assert "from a rounded log: exact if the build is ttnn 0.81.1, else within 525 B" in learned.warnings[-1]


def test_a_message_beats_a_rounded_block_and_survives_a_line_break():
    evidence = find_evidence(
        [
            "Device L1 memory state: MemoryView{numBanks: 64, totalBytesPerBank: 1.329 MB, total",
            "E  RuntimeError: Out of Memory: Not enough space to allocate 5 B L1 buffer across 64\n",
            "banks, where each bank needs to store 2048 B, but bank size is 1,393,312 B (allocated: 0 B",
        ]
    )
    assert (evidence["L1"].bytes_per_bank, evidence["L1"].error_bytes) == (1393312, 0)


def test_the_device_table_of_a_capture():
    text = '{"devices": [{"l1_num_banks": 110, "l1_bank_size": 1461120, "num_dram_channels": 8}]}'
    learned = learn_board([text], "p150")
    assert sizes(learned) == sizes(open_board("p150"))
    assert learned.source == "learned from a capture's device table"


def test_the_dispatch_grid_follows_the_number_of_banks():
    assert str(learn_board([oom("L1", 63, 1393312)], "n150").grid) == "7x9"


def test_contradictions_and_silence_are_refused():
    with pytest.raises(BadInputError, match="12 DRAM banks, p150 has 8"):
        learn_board([oom("DRAM", 12, 1072693184)], "p150")
    with pytest.raises(BadInputError, match="no bank sizes in this evidence"):
        learn_board(["nothing of interest"])
    with pytest.raises(BadInputError, match="does not say which board"):
        learn_board([oom("L1", 5, 1393312)])
