# SPDX-License-Identifier: Apache-2.0
"""A folder of results: what each file is, is seen from its content; a test that two files tell of counts once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ttmem._errors import BadInputError
from ttmem.sweep.foreign.junit_xml import read_junit
from ttmem.sweep.foreign.meaning import operator_of
from ttmem.sweep.foreign.pytest_log import read_pytest_log
from ttmem.sweep.foreign.sweep_framework import read_sweep_csv, read_sweep_json
from ttmem.sweep.tests import Test

_LOGS = ("*_results.txt", "*_results.log", "*.xml", "*.json", "*.csv")
_OUR_OWN = frozenset(
    (
        "detailed_analysis_data.json", "oom_detailed_data.json", "oom_operators_summary.csv",
        "comprehensive_oom_report.json", "oom_failures_detailed.csv", "subset_test_analysis.json",
    )
)  # fmt: skip
"""Reports may be written beside the logs; they are no evidence."""


@dataclass(frozen=True, slots=True)
class ForeignResults:
    """All tests of a place, each once."""

    tests: tuple[Test, ...]
    operators: tuple[str, ...]
    """That a file is named after, whether or not it holds a test."""
    notes: tuple[str, ...]
    files: int


def read_foreign(place: Path) -> ForeignResults:
    """Tests of a file, or of the files of a folder and its subfolders."""
    tests: dict[tuple[str, str], Test] = {}
    operators: list[str] = []
    notes: list[str] = []
    files = doubled = 0
    for file in _files(place):
        source = str(file.relative_to(place)) if place.is_dir() else file.name
        found, remarks, operator = _read(file, source)
        if found is None:
            if not place.is_dir():
                raise BadInputError("holds no test results that are known", where=str(file))
            continue
        files += 1
        notes += remarks
        if operator:
            operators.append(operator)
            if not found:
                notes.append(f"{source}: no test in it; an operator without a test has not passed")
        for test in found:
            key = _identity(test)
            before = tests.get(key)
            doubled += before is not None
            if before is None or _says_more(test, before):
                tests[key] = test
    if not files:
        raise BadInputError(
            "no test results found",
            where=str(place),
            hint="known: results of 'ttmem sweep run', test_*_results.txt, JUnit XML, tt-metal sweep JSON or CSV",
        )
    if doubled:
        notes.append(f"{doubled} tests were told of by more than one file and count once")
    return ForeignResults(tuple(tests.values()), tuple(dict.fromkeys(operators)), tuple(notes), files)


def _files(place: Path) -> Iterator[Path]:
    if not place.is_dir():
        yield place
        return
    found = {file for pattern in _LOGS for file in place.rglob(pattern) if file.is_file() and file.name not in _OUR_OWN}
    yield from sorted(found)


def _read(file: Path, source: str) -> tuple[list[Test] | None, list[str], str]:
    text = file.read_text("utf-8", "replace")
    head = text.lstrip("\ufeff \t\r\n")
    if head.startswith("<"):
        if not re.search(r"<test(suites?|case)\b", text):
            return None, [], ""
        return read_junit(head, source), [], ""
    if file.suffix == ".json":
        return read_sweep_json(head, source), [], ""
    if file.suffix == ".csv":
        return read_sweep_csv(head, source), [], ""
    log = read_pytest_log(text, source)
    return list(log.tests), list(log.notes), operator_of(file.name)


def _identity(test: Test) -> tuple[str, str]:
    """The same test in a terminal log and in XML: its module's last name, function and parameters."""
    file, separator, name = test.name.partition("::")
    if not separator:
        return test.operator, f"{test.source} {test.name}" if "#" in test.name and " " in test.name else test.name
    module = file.rsplit("/", 1)[-1].removesuffix(".py").rsplit(".", 1)[-1]
    return module, name


def _says_more(test: Test, before: Test) -> bool:
    """A failure over a pass (a rerun), figures over none."""
    if before.status == "pass" or test.status == "pass":
        return before.status == "pass" and test.status != "pass"
    return test.needed_bytes is not None and before.needed_bytes is None
