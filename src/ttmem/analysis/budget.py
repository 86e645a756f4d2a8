# SPDX-License-Identifier: Apache-2.0
"""Does a run stay within its memory budget? One verdict per limit, with the operation to look at."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ttmem.analysis.diff import MemoryChange, MemoryDiff, diff
from ttmem.analysis.failure import memory_failure
from ttmem.analysis.padding import padding_at_peak
from ttmem.analysis.peaks import Peak, peaks
from ttmem.analysis.programs_l1 import ProgramPeak, programs_peak
from ttmem.analysis.states import OperationPlace, operation_line, unread
from ttmem.base.errors import BadInputError
from ttmem.base.formatting import format_mib, format_percent
from ttmem.profile.model import Profile

PERCENT, BYTES = "percent", "bytes"

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_AMOUNT = re.compile(r"(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?:(?P<percent>%)|(?P<unit>[kmgt]?)i?b?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit in percent (of the bank, of the baseline) or in bytes per bank."""

    amount: float
    unit: str = PERCENT

    def __str__(self) -> str:
        """Return the limit as a person would write it."""
        return f"{self.amount:g}%" if self.unit == PERCENT else f"{format_mib(self.amount)} per bank"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits to check; an absent limit is not checked."""

    memories: Mapping[str, Limit] = field(default_factory=dict)
    """By memory: the highest peak that is allowed."""
    padding: Limit | None = None
    """Percent of overhead over the logical bytes alive at the DRAM peak."""
    growth: Limit | None = None
    """How much a peak may exceed the baseline's."""


DEFAULT_LIMITS = Limits({"DRAM": Limit(80.0), "L1": Limit(90.0)})
"""The targets that the project's users know from the first report format."""
DEFAULT_GROWTH = Limit(2.0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one limit: its figures in ``unit``, and the operation to look at."""

    rule: str
    """``max-dram``, ``max-l1``, ``max-padding``, ``max-growth-dram``, ``run-failed``, ..."""
    ok: bool
    memory: str | None
    measured: int | float | None
    """None for a growth from nothing."""
    limit: int | float
    unit: str
    """Of ``measured`` and ``limit``: ``format_percent`` or ``bytes`` (per bank)."""
    message: str
    operation: OperationPlace | None
    line: int | None
    """Of that operation in the source."""


Amount = str | float
"""A limit as people write it: ``"80%"``, ``"700MiB"``; a float such as 0.8 is a share, an int is bytes."""


def parse_limit(amount: Amount, *, bare_unit: str | None = None) -> Limit:
    """``80%``, ``0.8`` (a fraction), ``700MiB``, ``1GB`` (binary, as everywhere here).

    A text without a unit is in ``bare_unit``, and refused where its meaning would be a guess.
    """
    if isinstance(amount, int):
        return Limit(amount, BYTES)
    text = repr(amount) if isinstance(amount, float) else amount
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise BadInputError(f"{text!r} is no limit", hint="write a share such as 80% or 0.8, or bytes such as 700MiB")
    number = float(match["number"])
    if match["percent"]:
        return Limit(number, PERCENT)
    if text.strip()[match.end("number") :].strip():
        return Limit(number * _UNITS[match["unit"].lower()], BYTES)
    if "." in match["number"] and number <= 1:
        return Limit(100 * number, PERCENT)
    if bare_unit is None:
        raise BadInputError(f"{text!r} has no unit", hint=f"write {text}% or {text}MiB")
    return Limit(number, bare_unit)


def refuse_more_than_a_bank(memory: str, limit: Limit | None) -> None:
    """Refuse a limit above the size of a bank: every run stays below it."""
    if limit is not None and limit.unit == PERCENT and limit.amount > 100:
        raise BadInputError(
            f"--max-{memory.lower()} expects at most 100% of a bank, got {limit}",
            hint="every run stays below that limit: write a share such as 80% or a size such as 700MiB",
        )


def check(profile: Profile, limits: Limits = DEFAULT_LIMITS, baseline: Profile | None = None) -> list[Verdict]:
    """Return the verdicts in the order memories, padding, growth, failure."""
    measured = peaks(profile)
    verdicts = [_memory_verdict(profile, measured, memory, limit) for memory, limit in limits.memories.items()]
    if limits.padding is not None:
        verdicts.append(_padding_verdict(profile, limits.padding))
    missing = {verdict.rule: unread(profile, verdict.memory or "") for verdict in verdicts}
    unsure = {v.rule for v in verdicts if missing[v.rule] and (v.ok or missing[v.rule].contradicts)}
    doubts = [f"{verdict.memory}: {missing[verdict.rule].text}" for verdict in verdicts if verdict.rule in unsure]
    if baseline is not None:
        compared, growth = diff(baseline, profile), limits.growth or DEFAULT_GROWTH
        unsure |= {_rule("max-growth", c.memory) for c in compared.memories.values() if not c.growth_is_sure}
        doubts += compared.doubts(growth.amount, in_percent=growth.unit == PERCENT)
        verdicts += [
            _growth_verdict(profile, compared, change, growth)
            for change in compared.memories.values()
            if change.is_known
        ]
    found = memory_failure(profile)
    if found is not None:
        # A run that died shows a peak that it never got past: within budget would be the wrong answer.
        message = f"the run failed ({found.failure_class}): {found.message}"
        place = _place(found.operation_index, found.operation_name, found.operation_location)
        verdicts.append(Verdict("run-failed", False, found.memory, 1.0, 0.0, "failures", message, place, found.line))
    if doubts and all(verdict.ok or verdict.rule in unsure for verdict in verdicts):
        raise find_undecided(doubts)
    return [verdict for verdict in verdicts if verdict.rule not in unsure]


def find_undecided(doubts: Sequence[str]) -> BadInputError:
    """The answer where figures are missing that could change it."""
    return BadInputError(
        f"the limits cannot be checked: {'; '.join(dict.fromkeys(doubts))}",
        hint="record the log again into a file; `ttmem profile` shows what could be read",
    )


def _memory_verdict(profile: Profile, measured: Mapping[str, Peak], memory: str, limit: Limit) -> Verdict:
    peak = measured.get(memory)
    if peak is None:
        missing = unread(profile, memory)
        raise BadInputError(
            f"no {memory} state in this source, so its limit cannot be checked{f': {missing.text}' if missing else ''}",
            hint=f"memories in it: {', '.join(measured) or 'none'}",
            where=profile.source.name,
        )
    if limit.unit == PERCENT and not peak.bytes_per_bank and peak.peak_bytes_per_bank:
        raise BadInputError(
            f"the size of a {memory} bank is not known, so a share of it cannot be checked",
            hint=f"give the limit in bytes: --max-{memory.lower().replace('_', '-')} 700MiB",
            where=profile.source.name,
        )
    programs = programs_peak(profile) if memory == "L1" else None
    if programs is not None and programs.total_bytes_per_core >= peak.peak_bytes_per_bank:
        return _programs_verdict(profile, peak, programs, limit)
    at = peak.caused_by_index
    cause = f" after {peak.caused_by_name} (operation {at})" if at is not None else ""
    judged = "; tensors alone, this source does not record what programs use" if memory == "L1" else ""
    return _verdict(
        profile,
        _rule("max", memory),
        memory,
        limit,
        (peak.peak_percent or 0.0) if limit.unit == PERCENT else float(peak.peak_bytes_per_bank),
        f"{memory} peak {format_mib(peak.peak_bytes_per_bank)} per bank "
        f"({format_percent(peak.peak_percent)} of the bank)"
        f"{cause}{judged if programs is None else ''}; the limit is {limit}",
        (at, peak.caused_by_name, peak.caused_by_location),
    )


def _programs_verdict(profile: Profile, peak: Peak, programs: ProgramPeak, limit: Limit) -> Verdict:
    """Check L1 with programs: their share is not in the allocator's own figure."""
    total = programs.total_bytes_per_core
    share = round(100 * total / peak.bytes_per_bank, 4) if peak.bytes_per_bank else None
    parts = ", ".join(
        f"{name.replace('_', ' ')} {format_mib(amount)}" for name, amount in programs.parts.items() if amount
    )
    unmeasured = programs.unmeasured_operations
    doubt = f"; at least, the programs of {unmeasured} operations were not measured" if unmeasured else ""
    return _verdict(
        profile,
        _rule("max", "L1"),
        "L1",
        limit,
        (share or 0.0) if limit.unit == PERCENT else float(total),
        f"L1 peak with programs {format_mib(total)} per core "
        f"({format_percent(share)} of the bank: {parts or 'empty'}) in "
        f"{programs.name} (operation {programs.index}){doubt}; the limit is {limit}",
        (programs.index, programs.name, programs.location),
    )


def _padding_verdict(profile: Profile, limit: Limit) -> Verdict:
    padding = padding_at_peak(profile)
    wasted = padding.wasted_bytes
    if wasted is None or padding.overhead_percent is None:
        raise BadInputError(
            "this source does not list the tensors alive at the DRAM peak, so their padding cannot be checked",
            hint="log operations with their memory states (TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG), or leave the limit out",
            where=profile.source.name,
        )
    first = padding.top[0] if padding.top else None
    place = f"{first.name} {first.type.describe()} of {first.producer_name or 'the inputs'}" if first else ""
    allowed = str(limit) if limit.unit == PERCENT else format_mib(limit.amount)
    return _verdict(
        profile,
        "max-padding",
        "DRAM",
        limit,
        padding.overhead_percent if limit.unit == PERCENT else float(wasted),
        f"padding adds {format_mib(wasted)} ({format_percent(padding.overhead_percent)}) to the tensors alive at the "
        f"DRAM peak{place and f'; most of it in {place}'}; the limit is {allowed}",
        (first.producer_index, first.producer_name, first.location) if first else None,
    )


def _growth_verdict(profile: Profile, compared: MemoryDiff, change: MemoryChange, limit: Limit) -> Verdict:
    delta = change.judged_delta_bytes or 0
    grown = next((tensor for tensor in compared.grew if tensor.memory == change.memory), None)
    share_percent = change.judged_delta_percent
    share = "from nothing" if share_percent is None else format_percent(share_percent, signed=True)
    what, unit = ("peak with programs", "core") if change.programs_delta_bytes is not None else ("peak", "bank")
    cause = ""
    if grown is not None and delta > 0:
        cause = f"; first suspect {grown.tensor} {grown.describe()} of {grown.operation_name or 'the inputs'}"
    return _verdict(
        profile,
        _rule("max-growth", change.memory),
        change.memory,
        limit,
        share_percent if limit.unit == PERCENT else float(delta),
        f"{change.memory} {what} {format_mib(delta, signed=True)} per {unit} ({share}) against the baseline{cause}; "
        f"the limit is {limit}{''.join(f'; {remark}' for remark in compared.remarks_about(change.memory))}",
        (grown.operation_index, grown.operation_name, grown.location) if grown else None,
        ok=not change.grows_over(limit.amount, in_percent=limit.unit == PERCENT),
    )


def _verdict(
    profile: Profile,
    rule: str,
    memory: str,
    limit: Limit,
    measured: float | None,
    message: str,
    operation: tuple[int | None, str, str] | None,
    *,
    ok: bool | None = None,
) -> Verdict:
    """``operation`` is the index, name and location of the one to look at, in the process of the memory's peak."""
    place = _place(*operation) if operation else None
    peak = peaks(profile).get(memory)
    line = operation_line(profile.timelines[peak.timeline], place.index) if peak and place else None
    holds = (measured or 0.0) <= limit.amount if ok is None else ok
    return Verdict(rule, holds, memory, measured, limit.amount, limit.unit, message, place, line)


def _place(index: int | None, name: str, location: str) -> OperationPlace | None:
    return None if index is None else OperationPlace(index, name, location)


def _rule(prefix: str, memory: str) -> str:
    return f"{prefix}-{memory.lower().replace('_', '-')}"
