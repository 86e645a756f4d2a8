# SPDX-License-Identifier: Apache-2.0
"""Verdicts as JUnit XML, which every CI shows as test results.

XML 1.0 has no way to write control characters, and logs have them: every text is made one line.
"""

from collections.abc import Sequence
from xml.etree import ElementTree

from ttmem.analysis.budget import Verdict
from ttmem.reports.kit.units import one_line


def render(verdicts: Sequence[Verdict], source_name: str) -> str:
    """One test case per rule."""
    failed = sum(not verdict.ok for verdict in verdicts)
    counts = {"tests": str(len(verdicts)), "failures": str(failed), "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": f"ttmem check {one_line(source_name)}", **counts})
    for verdict in verdicts:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {"classname": "ttmem.check", "name": verdict.rule, "file": one_line(source_name), "time": "0"},
        )
        if verdict.line:
            case.set("line", str(verdict.line))
        if not verdict.ok:
            problem = ElementTree.SubElement(
                case, "failure", {"type": verdict.rule, "message": one_line(verdict.message)}
            )
            problem.text = _detail(verdict)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _detail(verdict: Verdict) -> str:
    lines = [one_line(verdict.message)]
    if place := verdict.operation:
        lines.append(f"operation #{place.index} {one_line(place.name)}")
        lines += [f"location {one_line(place.location)}"] if place.location else []
    return "\n".join(lines)
