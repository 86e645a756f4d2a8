# SPDX-License-Identifier: Apache-2.0
"""The verdicts of ``ttmem check`` as JSON, text, GitHub annotations, JUnit XML and SARIF."""

from collections.abc import Sequence
from xml.etree import ElementTree

from ttmem.analysis.budget import Verdict
from ttmem.analysis.failure import RunEnd
from ttmem.base.formatting import flatten_text, pluralize
from ttmem.reports.kit import sarif
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import Document
from ttmem.reports.kit.tables import Table, name_column, text_column
from ttmem.reports.profile_document import RunEndEntry


class CheckDocument(Document, frozen=True, tag_field="schema", tag="ttmem.check/1"):
    """The verdicts, one per limit in the order of the limits; ``ok`` when all limits hold."""

    ok: bool
    verdicts: Sequence[Verdict]
    ended: RunEndEntry | None = None
    """Null when the run completed. An end for another reason than memory breaks no limit."""


_STYLES = {"FAIL": "bold red", "ok": "green"}
_COLUMNS = (text_column("", style=lambda word: _STYLES.get(word, "")), text_column(""), name_column(""))


def render_terminal(
    verdicts: Sequence[Verdict], ended: RunEnd | None = None, *, width: int = 100, color: bool = False
) -> str:
    """Render one line per verdict, broken limits first: ``FAIL max-dram  DRAM peak ...``, then the operation."""
    rows = []
    for verdict in sorted(verdicts, key=lambda verdict: verdict.ok):
        rows.append(("ok" if verdict.ok else "FAIL", verdict.rule, verdict.message))
        if not verdict.ok and (place := verdict.operation):
            at = f" at {flatten_text(place.location)}" if place.location else ""
            line = f", line {verdict.line}" if verdict.line else ""
            rows.append(("", "", f"#{place.index} {place.name}{at}{line}"))
    report = TextReport(width, color=color)
    if rows:
        report.print(Table(_COLUMNS, rows))
    broken = sum(not verdict.ok for verdict in verdicts)
    if broken:
        report.print(f"{broken} of {pluralize(len(verdicts), 'limit')} broken", style="bold red")
    elif len(verdicts) > 1:
        report.print(f"all {len(verdicts)} limits hold")
    else:
        report.print("the limit holds" if verdicts else "no limit was given")
    if ended is not None and not ended.is_for_memory:
        report.print(f"{'' if broken else 'fits as far as it ran; '}{flatten_text(ended.sentence)}", style="yellow")
    return report.render()


def render_github(verdicts: Sequence[Verdict], source_name: str) -> str:
    """Render an error for each broken limit; a limit that holds needs no annotation."""
    commands = ""
    for verdict in verdicts:
        if verdict.ok:
            continue
        title = _escape_property(f"ttmem {verdict.rule}")
        place = f"file={_escape_property(source_name)},line={verdict.line or 1},title={title}"
        commands += f"::error {place}::{_escape_data(flatten_text(verdict.message))}\n"
    return commands


def _escape_data(text: str) -> str:
    """Escape as the runner expects; otherwise a log could write commands of its own."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


def render_junit(verdicts: Sequence[Verdict], source_name: str) -> str:
    """Render one test case per rule, on one line each text: XML 1.0 cannot hold the control characters of logs."""
    failed = sum(not verdict.ok for verdict in verdicts)
    counts = {"tests": str(len(verdicts)), "failures": str(failed), "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": f"ttmem check {flatten_text(source_name)}", **counts})
    for verdict in verdicts:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {"classname": "ttmem.check", "name": verdict.rule, "file": flatten_text(source_name), "time": "0"},
        )
        if verdict.line:
            case.set("line", str(verdict.line))
        if not verdict.ok:
            problem = ElementTree.SubElement(
                case, "failure", {"type": verdict.rule, "message": flatten_text(verdict.message)}
            )
            problem.text = _describe_problem(verdict)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _describe_problem(verdict: Verdict) -> str:
    lines = [flatten_text(verdict.message)]
    if place := verdict.operation:
        lines.append(f"operation #{place.index} {flatten_text(place.name)}")
        lines += [f"location {flatten_text(place.location)}"] if place.location else []
    return "\n".join(lines)


_OTHER_RULES = {
    "max-padding": "Tile padding of the tensors alive at the DRAM peak stays within its limit.",
    "run-failed": "The run finishes.",
}


def render_sarif(verdicts: Sequence[Verdict], source_name: str) -> str:
    """Render one result per verdict, at the operation's line in the log; limits that hold are results too."""
    rules = {verdict.rule: sarif.SarifRule(verdict.rule, _describe_rule(verdict)) for verdict in verdicts}
    results = [
        sarif.SarifResult(
            verdict.rule,
            "none" if verdict.ok else "error",
            verdict.message,
            source_name,
            verdict.line,
            verdict.operation.name if verdict.operation else "",
            verdict.operation.location if verdict.operation else "",
            kind="pass" if verdict.ok else "fail",
        )
        for verdict in verdicts
    ]
    return sarif.render_log(list(rules.values()), results)


def _describe_rule(verdict: Verdict) -> str:
    if verdict.rule in _OTHER_RULES:
        return _OTHER_RULES[verdict.rule]
    if verdict.rule.startswith("max-growth-"):
        return f"The {verdict.memory} peak does not outgrow the baseline."
    return f"The {verdict.memory} peak stays within its limit." if verdict.memory else verdict.rule
