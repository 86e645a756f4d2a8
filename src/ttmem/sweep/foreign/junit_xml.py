# SPDX-License-Identifier: Apache-2.0
"""JUnit XML, as pytest and most CI write it."""

from __future__ import annotations

from xml.etree import ElementTree

from ttmem._errors import BadInputError
from ttmem.sweep.foreign.meaning import Meaning, meaning_of_failure, meaning_of_skip, operator_of, shapes_in
from ttmem.sweep.tests import Test


def read_junit(text: str, source: str) -> list[Test]:
    """Every test case, once; a second entry of the same (teardown errors) only makes it worse."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise BadInputError("JUnit XML has no document type; refused", where=source)
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise BadInputError(f"not XML: {error}", where=source) from None
    found: dict[str, Test] = {}
    for case in root.iter("testcase"):
        test = _test(case, source)
        before = found.get(test.name)
        if before is None or (before.status == "pass" and test.status != "pass"):
            found[test.name] = test
    return list(found.values())


def _test(case: ElementTree.Element, source: str) -> Test:
    module, name = case.get("classname") or case.get("file") or "", case.get("name") or ""
    meaning = Meaning("pass")
    for kind in ("failure", "error"):
        problem = case.find(kind)
        if problem is not None:
            meaning = meaning_of_failure(_text(problem))
    skip = case.find("skipped")
    if skip is not None and meaning.status == "pass":
        meaning = meaning_of_skip(_text(skip))
    reason = "" if skip is None else skip.get("message") or ""
    file = next((part for part in reversed(module.split(".")) if part.startswith("test_")), module)
    shapes = shapes_in(reason.split("\n", 1)[0].partition(" - ")[0])[:1] or shapes_in(name)
    return Test(
        operator_of(file if file.startswith("test_") else name.partition("[")[0]),
        f"{file}::{name}",
        meaning.status,
        shapes=shapes,
        failed_memory=meaning.memory,
        needed_bytes=meaning.needed_bytes,
        bytes_per_bank=meaning.bytes_per_bank,
        banks=meaning.banks,
        message=meaning.message,
        failure_class=meaning.failure_class,
        source=source,
        seconds=_seconds(case.get("time")),
    )


def _text(problem: ElementTree.Element) -> str:
    """The message is often cut; the body has the traceback."""
    return "\n".join(filter(None, (problem.get("message"), problem.text)))


def _seconds(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
