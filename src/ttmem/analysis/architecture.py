# SPDX-License-Identifier: Apache-2.0
"""Which chip a profile was taken on, as far as its memory states tell."""

from ttmem.analysis.states import bank_size
from ttmem.hardware import ARCHITECTURES, BOARDS, WORMHOLE, Architecture
from ttmem.profile import Profile


def architecture_of(profile: Profile) -> Architecture:
    """The chip generation, for alignments: from the source's own word, else from the DRAM bank count.

    Without either (no memory state was printed) the smaller alignment is taken, which never overstates.
    """
    named = ARCHITECTURES.get(str(profile.facts.get("system", "")))
    if named:
        return named
    for timeline in profile.timelines:
        banks, bytes_per_bank = bank_size(profile, timeline, "DRAM")
        fitting = [
            board.architecture
            for board in BOARDS
            if board.dram_banks == banks and board.architecture.dram_bytes_per_bank >= bytes_per_bank
        ]
        if fitting:
            return min(fitting, key=lambda chip: chip.dram_bytes_per_bank - bytes_per_bank)
    return WORMHOLE
