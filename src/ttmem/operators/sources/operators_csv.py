# SPDX-License-Identifier: Apache-2.0
"""The operators CSV of the first memory studies: a dotted name, the input shapes, the model.

One row per call and no types or scalars: tensors are taken as bfloat16, and what a call needs besides is the
catalogue's assumption. The last part of a name is often a module's or an overload's name, not an operator.
"""

import csv
import re
from collections import Counter

from ttmem.operators.case import Case, CaseList, CaseTensor, ModelUse, merge_cases
from ttmem.operators.catalogue_entries import catalogue

_SIZE = re.compile(r"\[([0-9,\s]*)\]")


def looks_like(text: str) -> bool:
    """Three columns whose second one holds sizes, within the first rows."""
    rows = [row for _, row in zip(range(50), csv.reader(text.splitlines()), strict=False)]
    return any(len(row) == 3 and _SIZE.search(row[1]) for row in rows)


def read(text: str, place: str) -> CaseList:
    """Rows after the header; what gives no case is counted by reason."""
    skipped: Counter[str] = Counter()
    others: dict[str, None] = {}
    cases = []
    rows = csv.reader(text.splitlines())
    next(rows, None)
    for row in rows:
        if len(row) != 3:
            skipped["rows without exactly three columns"] += bool(row)
            continue
        name, shapes, model = (cell.strip() for cell in row)
        last = name.rsplit(".", 1)[-1]
        if name.startswith("input_tensor") or last.isdigit():
            skipped["rows that name an input, not an operator"] += 1
            continue
        op = catalogue().aten_name(last)
        if op not in catalogue().operators:
            others[last] = None
            skipped["rows whose last name part is no operator"] += 1
            continue
        tensors = tuple(CaseTensor(shape) for shape in _shapes(shapes))
        if not tensors:
            skipped["rows without a shape"] += 1
            continue
        cases.append(Case(op, tensors, {}, (ModelUse(model, 1, "", (name,)),)))
    return CaseList("operators-csv", tuple(merge_cases(cases)), dict(skipped), tuple(others))


def _shapes(cell: str) -> list[tuple[int, ...]]:
    found = []
    for match in _SIZE.finditer(cell):
        sizes = tuple(int(size[:20]) for size in re.findall("[0-9]+", match[1]))
        if sizes:
            found.append(sizes)
    return found
