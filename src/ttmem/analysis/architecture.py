# SPDX-License-Identifier: Apache-2.0
"""The chip that a profile was taken on, as its memory states show, and whether two profiles share it."""

from ttmem.analysis.states import bank_size
from ttmem.base.formatting import format_mib
from ttmem.hardware import ARCHITECTURES, BOARDS, WORMHOLE, Architecture
from ttmem.profile.model import Profile


def guess_architecture(profile: Profile) -> Architecture:
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


def describe_differences(before: Profile, after: Profile) -> tuple[str, ...]:
    """Return sentences on differences of hardware between two profiles; bytes per bank compare only without any."""
    found = []
    for name, words in (("board", "boards"), ("system", "chips"), ("chips", "numbers of chips"), ("mesh", "meshes")):
        first, second = (str(profile.facts.get(name, "")) for profile in (before, after))
        if first and second and first != second:
            found.append(f"the {words} differ: {first} -> {second}")
            if name == "board":
                break  # it explains the others
    sizes = [{memory: _bank_size(profile, memory) for memory in ("DRAM", "L1")} for profile in (before, after)]
    for memory, (banks, bank_bytes) in sizes[0].items():
        other_banks, other_bytes = sizes[1][memory]
        if not banks or not other_banks:
            continue
        if banks != other_banks:
            found.append(
                f"{memory} has {banks} banks of {format_mib(bank_bytes)} before and {other_banks} of "
                f"{format_mib(other_bytes)} after, so figures per bank do not compare"
            )
        elif abs(bank_bytes - other_bytes) > before.source.state_error_bytes + after.source.state_error_bytes:
            found.append(
                f"a {memory} bank has {format_mib(bank_bytes)} before and {format_mib(other_bytes)} after: another "
                "build, or the device was opened with other regions"
            )
    return tuple(found)


def _bank_size(profile: Profile, memory: str) -> tuple[int, int]:
    """(banks, bytes per bank) of the first process that shows the memory."""
    sizes = (bank_size(profile, timeline, memory) for timeline in profile.timelines)
    return next((size for size in sizes if size[0]), (0, 0))
