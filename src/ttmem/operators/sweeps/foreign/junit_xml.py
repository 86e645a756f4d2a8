# SPDX-License-Identifier: Apache-2.0
"""JUnit XML, as pytest and most CI write it."""

import re
from xml.etree import ElementTree

from ttmem.base.errors import BadInputError
from ttmem.base.limits import DOCUMENT_ELEMENTS
from ttmem.failures.classify import classify, classify_skip, limit_tests
from ttmem.failures.outcome import PASS, Outcome
from ttmem.operators.sweeps.foreign._names import operator_of, shapes_in
from ttmem.operators.sweeps.result import Result
from ttmem.readers.byte_source import Head

KIND = "junit-xml"
TITLE = "JUnit XML of a test run"
_BEGINS = re.compile(rb"<test(?:suites?|case)\b")


def sniff(head: Head) -> bool:
    """XML with a test suite in it."""
    return head.content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") and bool(_BEGINS.search(head.content))


def read(text: str, source: str) -> list[Result]:
    """Read each test case once; a second entry (teardown errors) can only make it worse."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise BadInputError("JUnit XML has no document type; refused", where=source)
    if text.count("<") > 2 * DOCUMENT_ELEMENTS:
        raise BadInputError(f"holds more than {DOCUMENT_ELEMENTS:,} elements", where=source)
    try:
        root = ElementTree.fromstring(text.lstrip("\ufeff \t\r\n"))
    except ElementTree.ParseError as error:
        raise BadInputError(f"not XML: {error}", where=source) from None
    found: dict[str, Result] = {}
    for case in limit_tests(root.iter("testcase")):
        result = _result(case, source)
        before = found.get(result.id)
        if before is None or (before.status == PASS and result.status != PASS):
            found[result.id] = result
    return list(found.values())


def _result(case: ElementTree.Element, source: str) -> Result:
    module, name = case.get("classname") or case.get("file") or "", case.get("name") or ""
    outcome = Outcome(PASS)
    for kind in ("failure", "error"):
        problem = case.find(kind)
        if problem is not None:
            outcome = classify(_text(problem))
    skip = case.find("skipped")
    if skip is not None and outcome.ok:
        outcome = classify_skip(_text(skip))
    reason = "" if skip is None else skip.get("message") or ""
    file = next((part for part in reversed(module.split(".")) if part.startswith("test_")), module)
    return Result(
        f"{file}::{name}",
        operator_of(file if file.startswith("test_") else name.partition("[")[0]),
        outcome._replace(seconds=_seconds(case.get("time"))),
        shapes=shapes_in(reason.split("\n", 1)[0].partition(" - ")[0])[:1] or shapes_in(name),
        source=source,
    )


def _text(problem: ElementTree.Element) -> str:
    """The message is often cut; the body has the traceback."""
    return "\n".join(filter(None, (problem.get("message"), problem.text)))


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or "nan")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
