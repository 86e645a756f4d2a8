# SPDX-License-Identifier: Apache-2.0
"""Case files: one case per line, as ``ttmem ops extract`` writes and every later verb reads them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ttmem.base.atomic_files import write_bytes
from ttmem.base.errors import BadInputError
from ttmem.operators.case import Case, case_from_json, distinct_cases
from ttmem.operators.sweeps.result import json_lines


@dataclass(frozen=True, slots=True)
class CaseList:
    """Cases of one file, and what of it was none."""

    kind: str
    """``operators-csv``, ``master-json``, ``sweep-json``, ``variations`` or ``cases``."""
    cases: tuple[Case, ...]
    skipped: dict[str, int]
    """Why entries gave no case -> how many."""
    other_names: tuple[str, ...] = ()
    """Names that are no operators: modules, overload suffixes."""


def read_cases(path: str | Path) -> list[Case]:
    """All cases of a file; a bad line is refused with its number, and so is a file without any."""
    cases = [case_from_json(raw, where=where) for where, raw in json_lines(Path(path), "case")]
    distinct_cases(cases, where=str(path))
    if not cases:
        raise BadInputError("holds no case", where=str(path), hint="'ttmem ops extract' makes case files")
    return cases


def cases_text(cases: Iterable[Case]) -> str:
    """The file's content, one line per case."""
    return "".join(json.dumps(case.to_json(), separators=(",", ":")) + "\n" for case in cases)


def write_cases(path: str | Path, cases: Iterable[Case]) -> None:
    """Write the whole file or nothing."""
    write_bytes(Path(path), cases_text(cases).encode())
