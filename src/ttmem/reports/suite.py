# SPDX-License-Identifier: Apache-2.0
"""The memory of a test suite as text and as JUnit XML."""

from collections.abc import Iterator
from itertools import takewhile
from xml.etree import ElementTree

from ttmem.analysis.states import OperationPlace
from ttmem.analysis.suite import GrownTest
from ttmem.base.formatting import flatten_text, format_count, format_mib, format_mib_number, format_share, pluralize
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import UNSET
from ttmem.reports.kit.tables import Table, mib_column, name_column, number_column, percent_column, text_column
from ttmem.reports.suite_document import Baseline, SuiteRun, SuiteTest, TestMemoryPeak

_MOST_ROWS, _LEAST_GOOD, _MOST_CAUSES, _MOST_GROWN, _MOST_NAMES = 20, 5, 3, 20, 3
_BAD = ("failed", "error", "crashed", "timeout")
_HEADS = ("", "DRAM MiB/bank", "L1 MiB/bank", "L1+programs", "s", "")


def render_terminal(suite: SuiteRun, *, width: int = 100, color: bool = False) -> str:
    """Render the tests, their causes, growth and findings; nothing when no test ran."""
    report = TextReport(width, color=color)
    bad = [test for test in suite.tests if test.outcome in _BAD]
    good = [test for test in suite.tests if test.operations and test.outcome not in _BAD]
    if bad or good:
        _print_tests(report, suite, bad, good)
    for line in _list_unchecked(suite):
        report.print(line)
    if suite.baseline is not None:
        _print_growth(report, suite.baseline)
    for found in suite.findings or ():
        where = f" at {flatten_text(found.location)}" if found.location else ""
        size = f"{format_mib(found.bytes_per_bank)} of {found.memory} per bank"
        line = (
            f"{found.kind} {flatten_text(found.tensor)} in {flatten_text(found.test)}: {size}{where}; {found.message}"
        )
        report.print(line, style="bold red")
    return report.render()


def _print_tests(report: TextReport, suite: SuiteRun, bad: list[SuiteTest], good: list[SuiteTest]) -> None:
    """Print the failed tests, then the others, the fullest first; names are whole, each on its own line."""
    shown = bad[:_MOST_ROWS]
    shown += good[: max(_MOST_ROWS - len(shown), _LEAST_GOOD)]
    title = f"peak memory per test ({suite.place}), ttnn {suite.ttnn or 'unknown'}"
    home = _find_common_folder([test.id for test in (*bad, *good)])
    if home:
        title += f", in {flatten_text(home.rstrip(':/'))}"
    rows = [_HEADS, *map(_build_row, shown)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEADS))]
    report.print()
    report.print(title, style="bold")
    report.print(_align(_HEADS, widths), style="bold")
    for number, (test, row) in enumerate(zip(shown, rows[1:], strict=True)):
        report.print(flatten_text(test.id.removeprefix(home)), style="bold red" if test.outcome in _BAD else "bold")
        report.print(_align(row, widths))
        if number < _MOST_CAUSES:
            for line in _list_causes(test):
                report.print(f"  {line}", style="dim")
        elif (at := find_fullest_operation(test)) is not None:
            report.print(f"  {flatten_text(f'{at.name} {at.location}')}", style="dim")
    if more := len(bad) + len(good) - len(shown):
        failed = len(bad) - min(len(bad), _MOST_ROWS)
        of_them = f", {format_count(failed)} of them failed" if failed else ""
        report.print(f"and {format_count(more)} more{of_them} (--json lists all)")


def _align(row: tuple[str, ...], widths: list[int]) -> str:
    first, *figures, last = row
    cells = [figure.rjust(width) for figure, width in zip(figures, widths[1:-1], strict=True)]
    return "  ".join(("", first.ljust(widths[0]), *cells, last)).rstrip()


def _find_common_folder(ids: list[str]) -> str:
    """Return the file or folder that all tests have in common."""
    common = "".join(
        letters[0] for letters in takewhile(lambda letters: len(set(letters)) == 1, zip(*ids, strict=False))
    )
    end = common.rfind("::") + 2 if "::" in common else common.rfind("/") + 1
    return common[:end] if len(ids) > 1 else ""


def _build_row(test: SuiteTest) -> tuple[str, ...]:
    memory = test.memories
    why = test.expected_failure if test.expected_failure is not UNSET else ""
    if test.failure is not None and test.failure.failure_class not in ("none", "other"):
        why = test.failure.failure_class
    elif test.not_judged is not None:
        why = "not judged"
    return (
        test.outcome if test.expected_failure is UNSET else "xfail",
        _format_amount(memory.get("DRAM")),
        _format_amount(memory.get("L1")),
        _format_amount(memory.get("L1"), with_programs=True),
        f"{test.seconds:.1f}",
        flatten_text(why),
    )


def find_fullest_operation(test: SuiteTest) -> OperationPlace | None:
    """Return the operation at which a test needs most of the fuller memory, L1 with its programs."""
    l1, dram = test.memories.get("L1"), test.memories.get("DRAM")
    places: list[tuple[float, object]] = []
    if l1 is not None and l1.bank_bytes:
        places.append(((l1.peak_with_programs_bytes_per_core or 0) / l1.bank_bytes, l1.peak_with_programs_at))
        places.append((l1.peak_bytes_per_bank / l1.bank_bytes, l1.caused_by))
    if dram is not None and dram.bank_bytes:
        places.append((dram.peak_bytes_per_bank / dram.bank_bytes, dram.caused_by))
    _, at = max(places, key=lambda place: place[0], default=(0.0, None))
    return at if isinstance(at, OperationPlace) else None


def _format_amount(peak: TestMemoryPeak | None, *, with_programs: bool = False) -> str:
    if peak is None:
        return "-"
    used = (peak.peak_with_programs_bytes_per_core or 0) if with_programs else peak.peak_bytes_per_bank
    return f"{format_mib_number(used)}{f' {100 * used / peak.bank_bytes:3.0f}%' if peak.bank_bytes else ''}"


def _list_causes(test: SuiteTest) -> Iterator[str]:
    """Yield one line for each memory that the test filled noticeably."""
    for name, peak in test.memories.items():
        top = peak.top if peak.top is not UNSET else ()
        at = peak.caused_by if isinstance(peak.caused_by, OperationPlace) else None
        used, where = peak.peak_bytes_per_bank, name
        if isinstance(peak.peak_with_programs_at, OperationPlace) and peak.peak_with_programs_bytes_per_core:
            used, where, at = peak.peak_with_programs_bytes_per_core, "L1+programs", peak.peak_with_programs_at
        if not used or at is None:
            continue
        tensors = ", ".join(
            f"{flatten_text(one.name)} {format_mib_number(one.bytes_per_bank)}" for one in top[:_MOST_NAMES]
        )
        place = f" ({flatten_text(at.location)})" if at.location else ""
        part = f" {format_share(used, peak.bank_bytes)}" if peak.bank_bytes else ""
        yield f"{where}{part} in {at.name}{place}" + (f"; largest: {tensors}" if tensors else "")


def _list_unchecked(suite: SuiteRun) -> Iterator[str]:
    """Yield the checks that a pass does not include here."""
    skipped = [test.skipped_comparisons for test in suite.tests if test.skipped_comparisons]
    if skipped:
        tests = pluralize(len(skipped), "test")
        line = f"a mock computes no values: {pluralize(sum(skipped), 'comparison')} in {tests} skipped"
        if not_judged := sum(test.not_judged is not None for test in suite.tests):
            line += f", {pluralize(not_judged, 'test')} ended by an assertion of their own and not judged"
        yield f"{line} (--values keeps them)"
    unmeasured = [test.unmeasured_programs for test in suite.tests if test.unmeasured_programs]
    if unmeasured:
        yield f"L1 of {pluralize(sum(unmeasured), 'program')} in {pluralize(len(unmeasured), 'test')} was not measured"


def _print_growth(report: TextReport, baseline: Baseline) -> None:
    name = flatten_text(baseline.name)
    for tests, words in ((baseline.only_before, f"only in '{name}'"), (baseline.only_after, f"not in '{name}'")):
        if tests:
            report.print(
                f"{pluralize(len(tests), 'test')} {words}: {', '.join(map(flatten_text, tests[:_MOST_NAMES]))}"
            )
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
    left_out = f"and {format_count(more)} more (--json lists all)" if more else ""
    title = f"grew more than {baseline.max_growth} since '{name}'"
    report.print_titled(Table(columns, rows, title, left_out))


def describe_growth(one: GrownTest, baseline: Baseline) -> str:
    """Describe the growth of a test."""
    amounts = f"from {format_mib(one.before_bytes)} to {format_mib(one.after_bytes)}"
    return f"{one.memory} grew {amounts} since '{flatten_text(baseline.name)}' (limit {baseline.max_growth})"


_ERRORS = ("error", "crashed", "timeout")


def render_junit(suite: SuiteRun) -> str:
    """Render one test case per test."""
    grown: dict[str, list[str]] = {}
    if suite.baseline is not None:
        for one in suite.baseline.grown:
            grown.setdefault(one.id, []).append(describe_growth(one, suite.baseline))
    outcomes = [test.outcome for test in suite.tests]
    counts = {
        "tests": str(len(outcomes)),
        "failures": str(sum(test.outcome == "failed" or test.id in grown for test in suite.tests)),
        "errors": str(sum(outcome in _ERRORS for outcome in outcomes)),
        "skipped": str(outcomes.count("skipped")),
        "time": f"{sum(test.seconds for test in suite.tests):.3f}",
    }
    suites = ElementTree.Element("testsuites", counts)
    element = ElementTree.SubElement(suites, "testsuite", {"name": f"ttmem test ({suite.place})", **counts})
    for test in suite.tests:
        _add_case(element, test, grown.get(test.id, []))
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _add_case(parent: ElementTree.Element, test: SuiteTest, grown: list[str]) -> None:
    file, _, name = flatten_text(test.id).partition("::")
    classname = file.removesuffix(".py").replace("/", ".")
    facts = {"classname": classname, "name": name or file, "time": f"{test.seconds:.3f}", "file": file}
    case = ElementTree.SubElement(parent, "testcase", facts)
    properties = ElementTree.SubElement(case, "properties")
    for key, value in _list_properties(test):
        ElementTree.SubElement(properties, "property", {"name": f"ttmem_{key}", "value": flatten_text(str(value))})
    if test.outcome == "skipped":
        ElementTree.SubElement(case, "skipped")
    if test.failure is not None:
        kind = "failure" if test.outcome == "failed" else "error"
        message = flatten_text(test.failure.message)
        problem = ElementTree.SubElement(case, kind, {"type": test.failure.failure_class, "message": message})
        if at := test.failure.operation:
            problem.text = _format_place(at)
    if grown and test.failure is None:
        ElementTree.SubElement(case, "failure", {"type": "max-growth", "message": flatten_text("; ".join(grown))})


def _list_properties(test: SuiteTest) -> list[tuple[str, object]]:
    """List the figures under the names of ``pytest --junitxml``, and what filled the memories."""
    figures = [
        (field, value)
        for field in test.__struct_fields__
        if field.endswith(("_per_bank", "_bytes", "_per_core"))
        or field in ("operations", "skipped_comparisons", "unmeasured_programs")
        if (value := getattr(test, field)) is not UNSET and value is not None
    ]
    for name, peak in test.memories.items():
        if isinstance(peak.caused_by, OperationPlace):
            figures.append((f"{name.lower()}_caused_by", _format_place(peak.caused_by)))
        if isinstance(peak.peak_with_programs_at, OperationPlace):
            figures.append(("l1_with_programs_at", _format_place(peak.peak_with_programs_at)))
        if peak.top:
            tensors = "; ".join(f"{one.name} {one.bytes_per_bank} B" for one in peak.top)
            figures.append((f"{name.lower()}_top", tensors))
    return figures


def _format_place(at: OperationPlace) -> str:
    return flatten_text(f"{at.name} {at.location}")
