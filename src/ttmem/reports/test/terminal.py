# SPDX-License-Identifier: Apache-2.0
"""The memory of a suite for a person: the fullest tests, what filled them, what was not checked, what grew."""

from collections.abc import Iterator
from itertools import takewhile

from ttmem.analysis.states import OperationPlace
from ttmem.analysis.suite import GrownTest
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import UNSET
from ttmem.reports.kit.tables import Table, mib_column, name_column, number_column, percent_column, text_column
from ttmem.reports.kit.units import counted, megabytes, mib, one_line, share, thousands
from ttmem.reports.test.document import Baseline, MemoryPeak, SuiteRun, SuiteTest

_MOST_ROWS, _MOST_CAUSES, _MOST_GROWN, _MOST_NAMES = 20, 3, 20, 3
_BAD = ("failed", "error", "crashed", "timeout")
_STYLES = dict.fromkeys(_BAD, "bold red")
_COLUMNS = (
    name_column("Test"),
    text_column("Outcome", style=lambda outcome: _STYLES.get(outcome, "")),
    number_column("DRAM MiB/bank", str),
    number_column("L1 MiB/bank", str, spare=2),
    number_column("L1+programs", str),
    number_column("s", lambda seconds: f"{seconds:.1f}", spare=1),
    name_column("Fullest in", spare=3),
    text_column("Why", unknown="", spare=4),
)


def render(suite: SuiteRun, *, width: int = 100, color: bool = False) -> str:
    """Nothing when no test ran."""
    report = TextReport(width, color=color)
    tests = [test for test in suite.tests if test.operations or test.outcome in _BAD]
    if tests:
        shown = tests[:_MOST_ROWS]
        left_out = (
            f"and {thousands(len(tests) - len(shown))} more (--json lists all)" if len(tests) > len(shown) else ""
        )
        title = f"peak memory per test ({suite.place}), ttnn {suite.ttnn or 'unknown'}"
        home = _home([test.id for test in tests])
        if home:
            title += f", in {one_line(home.rstrip(':/'))}"
        rows = [(test.id.removeprefix(home), *_row(test)) for test in shown]
        report.titled(Table(_COLUMNS, rows, title, left_out))
        for test in shown[:_MOST_CAUSES]:
            for line in _causes(test):
                report.print(line, style="dim")
    for line in _not_checked(suite):
        report.print(line)
    if suite.baseline is not None:
        _print_growth(report, suite.baseline)
    for found in suite.findings or ():
        where = f" at {one_line(found.location)}" if found.location else ""
        size = f"{megabytes(found.bytes_per_bank)} of {found.memory} per bank"
        line = f"{found.kind} {one_line(found.tensor)} in {one_line(found.test)}: {size}{where}; {found.message}"
        report.print(line, style="bold red")
    return report.text()


def _home(ids: list[str]) -> str:
    """The file or folder that all tests have in common: it needs no room in every row."""
    common = "".join(
        letters[0] for letters in takewhile(lambda letters: len(set(letters)) == 1, zip(*ids, strict=False))
    )
    end = common.rfind("::") + 2 if "::" in common else common.rfind("/") + 1
    return common[:end] if len(ids) > 1 else ""


def _row(test: SuiteTest) -> tuple[object, ...]:
    memory = test.memories
    at = fullest_at(test)
    why = test.expected_failure if test.expected_failure is not UNSET else None
    if test.failure is not None and test.failure.failure_class not in ("none", "other"):
        why = test.failure.failure_class
    return (
        test.outcome if test.expected_failure is UNSET else "xfail",
        _amount(memory.get("DRAM")),
        _amount(memory.get("L1")),
        _amount(memory.get("L1"), with_programs=True),
        test.seconds,
        None if at is None else f"{at.name} {at.location}",
        why,
    )


def fullest_at(test: SuiteTest) -> OperationPlace | None:
    """Where a test needs most: in the memory that is fuller, L1 with its programs."""
    l1, dram = test.memories.get("L1"), test.memories.get("DRAM")
    places: list[tuple[float, object]] = []
    if l1 is not None and l1.bank_bytes:
        places.append(((l1.peak_with_programs_bytes_per_core or 0) / l1.bank_bytes, l1.peak_with_programs_at))
        places.append((l1.peak_bytes_per_bank / l1.bank_bytes, l1.caused_by))
    if dram is not None and dram.bank_bytes:
        places.append((dram.peak_bytes_per_bank / dram.bank_bytes, dram.caused_by))
    _, at = max(places, key=lambda place: place[0], default=(0.0, None))
    return at if isinstance(at, OperationPlace) else None


def _amount(peak: MemoryPeak | None, *, with_programs: bool = False) -> str | None:
    if peak is None:
        return None
    used = (peak.peak_with_programs_bytes_per_core or 0) if with_programs else peak.peak_bytes_per_bank
    return f"{mib(used)}{f' {100 * used / peak.bank_bytes:3.0f}%' if peak.bank_bytes else ''}"


def _causes(test: SuiteTest) -> Iterator[str]:
    """One line for every memory that the test filled noticeably."""
    for name, peak in test.memories.items():
        top = peak.top if peak.top is not UNSET else ()
        at = peak.caused_by if isinstance(peak.caused_by, OperationPlace) else None
        used, where = peak.peak_bytes_per_bank, name
        if isinstance(peak.peak_with_programs_at, OperationPlace) and peak.peak_with_programs_bytes_per_core:
            used, where, at = peak.peak_with_programs_bytes_per_core, "L1+programs", peak.peak_with_programs_at
        if not used or at is None:
            continue
        tensors = ", ".join(f"{one_line(one.name)} {mib(one.bytes_per_bank)}" for one in top[:_MOST_NAMES])
        place = f" ({one_line(at.location)})" if at.location else ""
        part = f" {share(used, peak.bank_bytes)}" if peak.bank_bytes else ""
        yield (
            f"{one_line(test.id.rpartition('::')[2])}: {where}{part} in {at.name}{place}"
            + (f"; largest: {tensors}" if tensors else "")
        )


def _not_checked(suite: SuiteRun) -> Iterator[str]:
    """What a pass does not mean here."""
    skipped = [test.skipped_comparisons for test in suite.tests if test.skipped_comparisons]
    if skipped:
        tests = counted(len(skipped), "test")
        yield f"memory only: {sum(skipped)} value comparisons in {tests} were skipped (a mock computes nothing)"
    unmeasured = [test.unmeasured_programs for test in suite.tests if test.unmeasured_programs]
    if unmeasured:
        yield f"L1 of {counted(sum(unmeasured), 'program')} in {counted(len(unmeasured), 'test')} was not measured"


def _print_growth(report: TextReport, baseline: Baseline) -> None:
    name = one_line(baseline.name)
    for tests, words in ((baseline.only_before, f"only in '{name}'"), (baseline.only_after, f"not in '{name}'")):
        if tests:
            report.print(f"{counted(len(tests), 'test')} {words}: {', '.join(map(one_line, tests[:_MOST_NAMES]))}")
    if not baseline.grown:
        report.print(f"no test of {baseline.compared} grew more than {baseline.max_growth} since '{name}'")
        return
    columns = (
        name_column("Test"),
        text_column("Memory"),
        mib_column("Before MiB"),
        mib_column("After MiB"),
        number_column("B", lambda growth: f"{growth:+,}", spare=1),
        percent_column("Growth", signed=True),
    )
    rows = [
        (one.id, one.memory, one.before_bytes, one.after_bytes, one.growth_bytes, one.growth_percent)
        for one in baseline.grown[:_MOST_GROWN]
    ]
    more = len(baseline.grown) - len(rows)
    left_out = f"and {thousands(more)} more (--json lists all)" if more else ""
    title = f"grew more than {baseline.max_growth} since '{name}'"
    report.titled(Table(columns, rows, title, left_out))


def growth_line(one: GrownTest, baseline: Baseline) -> str:
    """What is said of a test that grew."""
    amounts = f"from {megabytes(one.before_bytes)} to {megabytes(one.after_bytes)}"
    return f"{one.memory} grew {amounts} since '{one_line(baseline.name)}' (limit {baseline.max_growth})"
