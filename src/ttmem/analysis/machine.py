# SPDX-License-Identifier: Apache-2.0
"""Which chip a profile was taken on, as far as its memory states tell."""

from __future__ import annotations

from ttmem.hardware import ARCHITECTURES, BOARDS, WORMHOLE, Architecture
from ttmem.profile import VIEW_BANKS, VIEW_TOTAL, Profile


def architecture_of(profile: Profile) -> Architecture:
    """The chip generation, for alignments: from the source's own word, else from the DRAM bank count.

    Without either (no memory state was printed) the smaller alignment is taken, which never overstates.
    """
    named = ARCHITECTURES.get(str(profile.facts.get("system", "")))
    if named:
        return named
    for timeline in profile.timelines:
        seen = timeline.block_view[:, 0]
        seen = seen[seen >= 0]
        if len(seen):
            banks, bytes_per_bank = (int(profile.views[seen[0], column]) for column in (VIEW_BANKS, VIEW_TOTAL))
            fitting = [
                board.architecture
                for board in BOARDS
                if board.dram_banks == banks and board.architecture.dram_bytes_per_bank >= bytes_per_bank
            ]
            if fitting:
                return min(fitting, key=lambda chip: chip.dram_bytes_per_bank - bytes_per_bank)
    return WORMHOLE
