# SPDX-License-Identifier: Apache-2.0
"""Detect the format of a list from its content."""

import json
from collections import Counter
from pathlib import Path

from ttmem.base.errors import BadInputError, as_bad_input
from ttmem.base.limits import DOCUMENT_VALUES, LINE_BYTES
from ttmem.base.text_files import read_text
from ttmem.operators.case import CaseList, merge_cases, read_cases
from ttmem.operators.sources import master_json, operators_csv, sweep_json, variations

_FORMATS = "an operators CSV, tt-metal master or sweep JSON, or pytorch2.0_ttnn input variations"


def read_list(path: str | Path) -> CaseList:
    """Read the cases of a file, or of a folder of input variations."""
    with as_bad_input(str(path), "a list of operators"):
        return _read(Path(path))


def _read(place: Path) -> CaseList:
    if place.is_dir():
        files = sorted(place.glob("aten.*.csv"))
        if not files:
            raise BadInputError("a folder without aten.*.csv files", where=str(place), hint=f"known lists: {_FORMATS}")
        return _together([variations.read(_text(file), file.name, str(file)) for file in files])
    text = _text(place)
    head = text.lstrip()[:1]
    if _is_case_file(text):
        return CaseList("cases", tuple(merge_cases(read_cases(place))), {})
    if head in ("{", "["):
        found = _read_json(text, place)
    elif variations.looks_like(text):
        found = variations.read(text, place.name, str(place))
    elif operators_csv.looks_like(text):
        found = operators_csv.read(text, str(place))
    else:
        raise BadInputError("not a list of operators", where=str(place), hint=f"known: {_FORMATS}, hf:Config, FILE::FN")
    if not found.cases:
        reasons = "; ".join(f"{count} x {reason}" for reason, count in found.skipped.items()) or "it is empty"
        raise BadInputError(f"no operator in it: {reasons}", where=str(place), hint=f"known lists: {_FORMATS}")
    return found


def _is_case_file(text: str) -> bool:
    """Files of our own are merged like any other list."""
    line = text.lstrip().partition("\n")[0]
    try:
        first = json.loads(line) if len(line) <= LINE_BYTES else None
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and "op" in first and "tensors" in first


def _read_json(text: str, place: Path) -> CaseList:
    if sum(map(text.count, ",[{")) > DOCUMENT_VALUES:
        raise BadInputError(
            f"holds more than {DOCUMENT_VALUES:,} values", where=str(place), hint="list fewer operators"
        )
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        where = f"{place}:{line}" if line else str(place)
        raise BadInputError(f"not JSON: {getattr(error, 'msg', 'nested too deeply')}", where=where) from None
    if master_json.looks_like(document):
        return master_json.read(document)
    if sweep_json.looks_like(document):
        return sweep_json.read(document, place.stem)
    raise BadInputError("JSON of no known form", where=str(place), hint=f"known lists: {_FORMATS}")


def _text(place: Path) -> str:
    return read_text(place, what="a list of operators")


def _together(lists: list[CaseList]) -> CaseList:
    skipped = sum((Counter(one.skipped) for one in lists), Counter[str]())
    return CaseList(lists[0].kind, tuple(merge_cases(case for one in lists for case in one.cases)), dict(skipped))
