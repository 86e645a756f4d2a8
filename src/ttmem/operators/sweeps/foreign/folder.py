# SPDX-License-Identifier: Apache-2.0
"""A folder of results: what each file is, is seen from its content; a test that is in two files counts once."""

from dataclasses import dataclass, replace
from pathlib import Path

from ttmem.base.errors import BadInputError, as_bad_input
from ttmem.failures.classify import limit_reading
from ttmem.failures.outcome import PASS
from ttmem.operators.sweeps.foreign import READERS, pytest_log
from ttmem.operators.sweeps.foreign._names import NoResultsError, operator_of
from ttmem.operators.sweeps.result import Result
from ttmem.readers.byte_source import OpenedSource
from ttmem.readers.registry import find_reader

_LOGS = ("*_results.txt", "*_results.log", "*.xml", "*.json", "*.csv")
_OUR_OWN = frozenset(
    (
        "detailed_analysis_data.json", "oom_detailed_data.json", "oom_operators_summary.csv",
        "comprehensive_oom_report.json", "oom_failures_detailed.csv", "subset_test_analysis.json",
    )
)  # fmt: skip
"""Reports of ttmem next to the logs; they are no evidence."""


@dataclass(frozen=True, slots=True)
class FolderResults:
    """The test results of a place, each test once."""

    results: tuple[Result, ...]
    operators: tuple[str, ...]
    """That a file is named after, whether or not it holds a test."""
    notes: tuple[str, ...]
    files: int


def read_place(place: Path) -> FolderResults:
    """Tests of a file, or of the files of a folder and its subfolders."""
    with limit_reading() as read:
        found = _read_place(place)
    return replace(found, notes=(*found.notes, *read.notes))


def _read_place(place: Path) -> FolderResults:
    results: dict[tuple[str, str], Result] = {}
    operators: list[str] = []
    notes: list[str] = []
    files = doubled = 0
    for file in _files(place):
        source = str(file.relative_to(place)) if place.is_dir() else file.name
        found, remarks, operator = _read(file, source)
        if found is None:
            if not place.is_dir():
                raise NoResultsError(str(file))
            continue
        files += 1
        notes += remarks
        if operator:
            operators.append(operator)
            if not found:
                notes.append(f"{source}: no test in it; an operator without a test has not passed")
        for result in found:
            key = _identity(result)
            before = results.get(key)
            doubled += before is not None
            if before is None or _says_more(result, before):
                results[key] = result
    if not files:
        raise BadInputError(
            "no test results found",
            where=str(place),
            hint=f"known: results of 'ttmem sweep run', {', '.join(one.title for one in READERS)}",
        )
    if doubled:
        notes.append(f"{doubled} tests are in more than one file and count once")
    return FolderResults(tuple(results.values()), tuple(dict.fromkeys(operators)), tuple(notes), files)


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    found = {file for pattern in _LOGS for file in place.rglob(pattern) if file.is_file() and file.name not in _OUR_OWN}
    return sorted(found)


def _read(file: Path, source: str) -> tuple[list[Result] | None, list[str], str]:
    """Results (None: not such a file), notes, and the operator that the file is named after."""
    with OpenedSource(file) as opened:
        reader = find_reader(opened.head, READERS)
        if reader is None:
            return None, [], ""
        content = opened.json_content() if opened.head.is_json else opened.content()
    text = content.decode("utf-8", "replace")
    try:
        with as_bad_input(source, reader.title):
            if reader.kind == pytest_log.KIND:
                return *pytest_log.read_log(text, source), operator_of(file.name)
            return reader.read(text, source), [], ""
    except NoResultsError:
        return None, [], ""


def _identity(result: Result) -> tuple[str, str]:
    """The same test in a terminal log and in XML: its module's last name, function and parameters."""
    file, separator, name = result.id.partition("::")
    if not separator:
        is_folded_skip = "#" in result.id and " " in result.id
        return result.op, f"{result.source} {result.id}" if is_folded_skip else result.id
    module = file.rsplit("/", 1)[-1].removesuffix(".py").rsplit(".", 1)[-1]
    return module, name


def _says_more(result: Result, before: Result) -> bool:
    """A failure over a pass (a rerun), figures over none."""
    if PASS in (before.status, result.status):
        return before.status == PASS and result.status != PASS
    return result.needed_bytes is not None and before.needed_bytes is None
