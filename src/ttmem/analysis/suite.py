# SPDX-License-Identifier: Apache-2.0
"""The memory of every test of a suite (a Profile whose runs are tests), and which tests grew since a baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ttmem.analysis.budget import PERCENT, Limit
from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.lifetimes import TensorLife
from ttmem.analysis.peaks import Peak, peaks
from ttmem.analysis.programs_l1 import ProgramPeak, programs_peak
from ttmem.profile.model import Profile
from ttmem.profile.runs import Run, find_runs, select_runs

WITH_PROGRAMS = "L1 with programs"
_MOST_TENSORS = 5


@dataclass(frozen=True, slots=True)
class MemoryOfTest:
    """Memory that a test needed."""

    number: int
    """Of its run."""
    operations: int
    finished: bool
    """It ended well."""
    peaks: Mapping[str, Peak]
    programs: ProgramPeak | None
    top: Mapping[str, tuple[TensorLife, ...]]
    """By memory (DRAM and L1): the largest tensors alive at its peak."""

    @property
    def figures(self) -> dict[str, int]:
        """Figures to compare: bytes per bank by memory, and per core for L1 with programs."""
        found = {memory: peak.peak_bytes_per_bank for memory, peak in self.peaks.items()}
        return found | ({WITH_PROGRAMS: self.programs.total_bytes_per_core} if self.programs else {})


@dataclass(frozen=True, slots=True)
class GrownTest:
    """A test and a memory of which it needs more than before."""

    id: str
    memory: str
    """``DRAM``, ``L1``, ..., or ``L1 with programs``."""
    before_bytes: int
    """Per bank; per core for L1 with programs."""
    after_bytes: int
    growth_bytes: int
    growth_percent: float | None
    """None when it needed nothing before."""


@dataclass(frozen=True, slots=True)
class SuiteGrowth:
    """A test's figures in a baseline."""

    compared: int
    """Tests that ended well in both."""
    grown: tuple[GrownTest, ...]
    """The most first."""
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]


def memory_of_tests(profile: Profile) -> dict[str, MemoryOfTest]:
    """Return the last run of each test by its name."""
    by_number: dict[int, list[Run]] = {}
    for run in find_runs(profile):
        if run.program:
            by_number.setdefault(run.number, []).append(run)
    return {parts[0].program: _test(select_runs(profile, parts), parts) for parts in by_number.values()}


def _test(profile: Profile, parts: Sequence[Run]) -> MemoryOfTest:
    """``parts`` are its runs on all devices that it used; the worst of them counts."""
    sets = {memory: alive_at_peak(profile, memory) for memory in ("DRAM", "L1")}
    top = {memory: alive.tensors[:_MOST_TENSORS] for memory, alive in sets.items() if alive is not None}
    return MemoryOfTest(
        number=parts[0].number,
        operations=sum(part.end_index - part.first_index for part in parts),
        finished=all(part.finished for part in parts),
        peaks=peaks(profile),
        programs=programs_peak(profile),
        top=top,
    )


def suite_growth(before: Profile, after: Mapping[str, MemoryOfTest], limit: Limit) -> SuiteGrowth:
    """Return the tests that grew by more than ``limit``; failed tests do not count."""
    earlier = memory_of_tests(before)
    both = [test for test in after if test in earlier and after[test].finished and earlier[test].finished]
    grown = [
        one
        for test in both
        for memory, used in after[test].figures.items()
        if (one := _find_growth(test, memory, earlier[test].figures.get(memory), used, limit)) is not None
    ]
    grown.sort(key=lambda one: (-(one.growth_percent or float("inf")), -one.growth_bytes, one.id, one.memory))
    return SuiteGrowth(
        len(both),
        tuple(grown),
        tuple(test for test in earlier if test not in after),
        tuple(test for test in after if test not in earlier),
    )


def _find_growth(test: str, memory: str, before: int | None, after: int, limit: Limit) -> GrownTest | None:
    if before is None or after <= before:
        return None
    share = 100 * (after - before) / before if before else None
    measured = share if limit.unit == PERCENT else after - before
    if measured is not None and measured <= limit.amount:
        return None
    return GrownTest(test, memory, before, after, after - before, None if share is None else round(share, 4))
