# SPDX-License-Identifier: Apache-2.0
"""Differences between two profiles, with the operations and tensors that caused them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ttmem.analysis.alignment import Steps, is_other_program
from ttmem.analysis.architecture import describe_differences
from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.distribution import distribution
from ttmem.analysis.peaks import Peak
from ttmem.analysis.programs_l1 import ProgramPeak, programs_peak
from ttmem.analysis.states import NOTHING_UNREAD, Unread, unread
from ttmem.analysis.tensor_diff import SUSPICION, Comparison, TensorChange
from ttmem.profile.model import MEMORIES, Profile


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A memory's peak in both profiles; None where a profile does not show it."""

    memory: str
    before_peak: Peak | None
    after_peak: Peak | None
    unattributed_delta_bytes_per_bank: int | None
    """Part of the change that belongs to no known tensor; None where a profile does not show this memory."""
    error_bytes: int
    """How far rounding of both figures can move the difference."""
    before_programs: ProgramPeak | None = None
    after_programs: ProgramPeak | None = None
    """L1 with the programs' own buffers; both or none, because a log does not know them."""
    pairs: tuple[tuple[int, int], ...] = ()
    """Operations of the two processes of these peaks that are the same step, where two different programs ran it."""

    names: tuple[str, str] = ("", "")
    """Of the two profiles."""
    unread_before: Unread = NOTHING_UNREAD
    unread_after: Unread = NOTHING_UNREAD
    """Which of its figures could not be read."""
    same_kind: bool = True
    """Whether both sources are of the same kind, so that they should show the same memories."""

    @property
    def before_bytes_per_bank(self) -> int | None:
        return self.before_peak.peak_bytes_per_bank if self.before_peak else None

    @property
    def after_bytes_per_bank(self) -> int | None:
        return self.after_peak.peak_bytes_per_bank if self.after_peak else None

    @property
    def before_device_bytes(self) -> int | None:
        return self.before_peak.peak_bytes_per_bank * self.before_peak.banks if self.before_peak else None

    @property
    def after_device_bytes(self) -> int | None:
        return self.after_peak.peak_bytes_per_bank * self.after_peak.banks if self.after_peak else None

    @property
    def is_known(self) -> bool:
        """True if both profiles show this memory, so that it can be compared."""
        return self.before_peak is not None and self.after_peak is not None

    @property
    def delta_bytes_per_bank(self) -> int | None:
        """None where a profile does not show this memory."""
        if self.before_peak is None or self.after_peak is None:
            return None
        return self.after_peak.peak_bytes_per_bank - self.before_peak.peak_bytes_per_bank

    @property
    def delta_percent(self) -> float | None:
        """Against the first profile; None when that was zero and the second is not, or one of them is not known."""
        return _percent(self.delta_bytes_per_bank, self.before_bytes_per_bank)

    @property
    def programs_delta_bytes(self) -> int | None:
        """Per core, tensors and programs together; None where a profile does not know what programs take."""
        if self.before_programs is None or self.after_programs is None:
            return None
        return self.after_programs.total_bytes_per_core - self.before_programs.total_bytes_per_core

    @property
    def growth_is_sure(self) -> bool:
        """True if growth that was read is certain: the first peak is known, the second is a lower bound."""
        return not self.unread_before and not self.unread_after.contradicts

    @property
    def absence_is_sure(self) -> bool:
        """True if the absence of growth is certain: the second peak is known, the first is a lower bound."""
        return not self.unread_after and not self.unread_before.contradicts

    @property
    def missing(self) -> list[Unread]:
        return [unread for unread in (self.unread_before, self.unread_after) if unread]

    @property
    def matters(self) -> bool:
        """True if a memory that only one profile shows must be compared: some kinds of sources never show it."""
        return self.same_kind or bool(self.before_bytes_per_bank or self.after_bytes_per_bank)

    @property
    def why_unknown(self) -> str:
        """``L1 is known in before and not in after (3 memory lines ...)``; empty where both are known."""
        if self.is_known:
            return ""
        known, unknown = self.names if self.before_peak else self.names[::-1]
        missing = self.unread_after if self.before_peak else self.unread_before
        return f"{self.memory} is known in {known} and not in {unknown}{f' ({missing.text})' if missing else ''}"

    @property
    def judged_delta_bytes(self) -> int | None:
        """The figure to check: L1 with programs where both profiles know it, else the allocator's."""
        return self.delta_bytes_per_bank if self.programs_delta_bytes is None else self.programs_delta_bytes

    @property
    def judged_delta_percent(self) -> float | None:
        if self.before_programs is None or self.programs_delta_bytes is None:
            return self.delta_percent
        return _percent(self.programs_delta_bytes, self.before_programs.total_bytes_per_core)

    def grows_over(self, limit: float, *, in_percent: bool) -> bool:
        """Return True if the checked figure grew by more than this percentage or these bytes per bank."""
        delta = self.judged_delta_bytes
        if delta is None or delta <= 0:
            return False
        if not in_percent:
            return delta > limit
        return self.judged_delta_percent is None or self.judged_delta_percent > limit


def _percent(delta: int | None, before: int | None) -> float | None:
    if not delta:
        return None if delta is None else 0.0
    return 100.0 * delta / before if before else None


@dataclass(frozen=True, slots=True)
class CountChange:
    """Number of times that an operation ran."""

    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class MemoryDiff:
    """Everything that is different; all lists are empty for two profiles of the same behaviour."""

    before_name: str
    after_name: str
    memories: dict[str, MemoryChange]
    grew: tuple[TensorChange, ...]
    """First suspect first."""
    shrank: tuple[TensorChange, ...]
    operation_counts: tuple[CountChange, ...]
    """Operations that ran more or less often, largest difference first."""
    remarks: tuple[str, ...] = ()
    """Why the figures may not compare: another board, chip or way to open the device."""

    def remarks_about(self, memory: str) -> list[str]:
        """Return the remarks on a memory, without those on other memories."""
        others = [other for other in MEMORIES if other != memory]
        return [text for text in self.remarks if not any(text.startswith((f"{o} ", f"a {o} ")) for o in others)]

    def grows_over(self, limit: float, *, in_percent: bool = True) -> bool:
        """Return True if any memory's peak grew by more than this: the regression of ``--fail-on``."""
        return any(change.grows_over(limit, in_percent=in_percent) for change in self.memories.values())

    def surely_grows_over(self, limit: float, *, in_percent: bool = True) -> bool:
        """Return True if that holds for all possible values of the figures that could not be read."""
        changes = [change for change in self.memories.values() if change.growth_is_sure]
        return any(change.grows_over(limit, in_percent=in_percent) for change in changes)

    def doubts(self, limit: float, *, in_percent: bool = True) -> list[str]:
        """Return reasons why growth beyond this is unknown; none where the figures decide it.

        A peak of which figures are missing may be higher than what was read. So growth that was read is sure unless
        the first profile is incomplete, and its absence is sure unless the second one is.
        """
        if not self.memories:
            return ["neither source holds a memory state"]
        found = []
        for memory, change in self.memories.items():
            grows = change.grows_over(limit, in_percent=in_percent)
            if not change.is_known:
                found += [change.why_unknown] if change.matters else []
            elif not (change.growth_is_sure if grows else change.absence_is_sure):
                found += [f"{memory}: {missing.text}" for missing in change.missing]
        return found


def diff(before: Profile, after: Profile) -> MemoryDiff:
    """Compare ``after`` with ``before``."""
    memories: dict[str, MemoryChange] = {}
    changes: list[TensorChange] = []
    programs = programs_peak(before), programs_peak(after)
    steps = Steps(before, after) if is_other_program(before, after) else None
    for memory in MEMORIES:
        first, second = alive_at_peak(before, memory), alive_at_peak(after, memory)
        if first is None and second is None:
            continue
        pairs = steps.pairs(first.peak.timeline, second.peak.timeline) if steps and first and second else ()
        if first is not None and second is not None:
            changes += Comparison(memory, before, after, first, second, pairs).changes()
            left = second.unattributed_bytes_per_bank - first.unattributed_bytes_per_bank
        else:
            left = None
        memories[memory] = MemoryChange(
            memory,
            before_peak=first.peak if first else None,
            after_peak=second.peak if second else None,
            unattributed_delta_bytes_per_bank=left,
            error_bytes=before.source.state_error_bytes + after.source.state_error_bytes,
            before_programs=programs[0] if memory == "L1" and all(programs) else None,
            after_programs=programs[1] if memory == "L1" and all(programs) else None,
            pairs=tuple(pairs),
            names=(before.source.name or before.name, after.source.name or after.name),
            unread_before=unread(before, memory),
            unread_after=unread(after, memory),
            same_kind=before.source.kind == after.source.kind,
        )
    changes.sort(key=lambda change: (SUSPICION.index(change.reason), -abs(change.delta_bytes)))
    return MemoryDiff(
        before_name=before.name,
        after_name=after.name,
        memories=memories,
        grew=tuple(change for change in changes if change.reason in SUSPICION[:3]),
        shrank=tuple(change for change in changes if change.reason in SUSPICION[3:]),
        operation_counts=_count_changes(before, after),
        remarks=(*describe_differences(before, after), *_unknown(memories.values())),
    )


def _unknown(changes: Iterable[MemoryChange]) -> Iterator[str]:
    """Yield sentences on memories that cannot be compared, or only in part."""
    for change in changes:
        if not change.is_known:
            if change.matters:
                yield change.why_unknown
        else:
            for name, missing in zip(change.names, (change.unread_before, change.unread_after), strict=True):
                if missing:
                    yield f"{change.memory} of {name} may be higher: {missing.text}"


def _count_changes(before: Profile, after: Profile) -> tuple[CountChange, ...]:
    first, second = distribution(before).by_name, distribution(after).by_name
    changes = [CountChange(name, first.get(name, 0), second.get(name, 0)) for name in {**first, **second}]
    changes = [change for change in changes if change.before != change.after]
    return tuple(sorted(changes, key=lambda change: (-abs(change.after - change.before), change.name)))
