# SPDX-License-Identifier: Apache-2.0
"""A suite as JUnit XML: pytest's outcomes with every test's memory as properties, and a failure for one that grew."""

from xml.etree import ElementTree

from ttmem.analysis.states import OperationPlace
from ttmem.reports.kit.documents import UNSET
from ttmem.reports.kit.units import one_line
from ttmem.reports.test.document import SuiteRun, SuiteTest
from ttmem.reports.test.terminal import growth_line

_ERRORS = ("error", "crashed", "timeout")


def render(suite: SuiteRun) -> str:
    """One test case per test."""
    grown: dict[str, list[str]] = {}
    if suite.baseline is not None:
        for one in suite.baseline.grown:
            grown.setdefault(one.id, []).append(growth_line(one, suite.baseline))
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
        _add(element, test, grown.get(test.id, []))
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _add(parent: ElementTree.Element, test: SuiteTest, grown: list[str]) -> None:
    file, _, name = one_line(test.id).partition("::")
    classname = file.removesuffix(".py").replace("/", ".")
    facts = {"classname": classname, "name": name or file, "time": f"{test.seconds:.3f}", "file": file}
    case = ElementTree.SubElement(parent, "testcase", facts)
    properties = ElementTree.SubElement(case, "properties")
    for key, value in _properties(test):
        ElementTree.SubElement(properties, "property", {"name": f"ttmem_{key}", "value": one_line(str(value))})
    if test.outcome == "skipped":
        ElementTree.SubElement(case, "skipped")
    if test.failure is not None:
        kind = "failure" if test.outcome == "failed" else "error"
        message = one_line(test.failure.message)
        problem = ElementTree.SubElement(case, kind, {"type": test.failure.failure_class, "message": message})
        if at := test.failure.operation:
            problem.text = _place(at)
    if grown and test.failure is None:
        ElementTree.SubElement(case, "failure", {"type": "max-growth", "message": one_line("; ".join(grown))})


def _properties(test: SuiteTest) -> list[tuple[str, object]]:
    """The figures under the names that ``pytest --junitxml`` has too, and what filled the memories."""
    figures = [
        (field, value)
        for field in test.__struct_fields__
        if field.endswith(("_per_bank", "_bytes", "_per_core"))
        or field in ("operations", "skipped_comparisons", "unmeasured_programs")
        if (value := getattr(test, field)) is not UNSET and value is not None
    ]
    for name, peak in test.memories.items():
        if isinstance(peak.caused_by, OperationPlace):
            figures.append((f"{name.lower()}_caused_by", _place(peak.caused_by)))
        if isinstance(peak.peak_with_programs_at, OperationPlace):
            figures.append(("l1_with_programs_at", _place(peak.peak_with_programs_at)))
        if peak.top:
            tensors = "; ".join(f"{one.name} {one.bytes_per_bank} B" for one in peak.top)
            figures.append((f"{name.lower()}_top", tensors))
    return figures


def _place(at: OperationPlace) -> str:
    return one_line(f"{at.name} {at.location}")
