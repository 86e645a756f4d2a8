# SPDX-License-Identifier: Apache-2.0
"""The chip generation, from the source's word or from the banks it prints."""

from __future__ import annotations

import pytest

from support.log_lines import BLACKHOLE as BLACKHOLE_BANKS
from support.log_lines import DEVICE, Log
from support.log_lines import WORMHOLE as WORMHOLE_BANKS
from ttmem.analysis.architecture import guess_architecture
from ttmem.hardware import ARCHITECTURES


@pytest.mark.parametrize(
    ("banks", "name"),
    [
        (WORMHOLE_BANKS, "wormhole"),
        ({**WORMHOLE_BANKS, "DRAM": (12, 1021.0)}, "wormhole"),
        (BLACKHOLE_BANKS, "blackhole"),
        ({**BLACKHOLE_BANKS, "DRAM": (7, 4075.4)}, "blackhole"),
        ({**WORMHOLE_BANKS, "DRAM": (5, 99999.0)}, "wormhole"),
    ],
    ids=["n150", "n150 with a reserved part", "p150", "p100", "unknown board: the smaller alignment"],
)
def test_from_the_banks(banks: dict[str, tuple[int, float]], name: str) -> None:
    log = Log(banks=banks)
    log.op(DEVICE, 1.0)
    assert guess_architecture(log.profile()).name == name


def test_the_word_of_the_source_wins() -> None:
    log = Log()
    log.line("#system_desc = #ttcore.system_desc<[{role = host}], [{arch = <blackhole>, grid = 10x13}]>")
    log.op(DEVICE, 1.0)
    assert guess_architecture(log.profile()) is ARCHITECTURES.get("blackhole")


def test_without_any_word_or_state_the_smaller_alignment_is_taken() -> None:
    log = Log()
    log.op(DEVICE)
    assert guess_architecture(log.profile()).name == "wormhole"
