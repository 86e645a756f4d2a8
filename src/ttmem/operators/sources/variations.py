# SPDX-License-Identifier: Apache-2.0
"""Input variations of pytorch2.0_ttnn: a CSV per operator (``aten.add.Tensor.csv``), an argument per cell.

``Tensor<[1, 256]> self = ?`` is a tensor without type; ``int dim = -1`` a scalar. Shapes may hold symbols (``s0 + 1``):
such a row has no size and is left out. A file may also hold the bare strings, one operator and its arguments per line.
"""

import csv
import re
from collections import Counter
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.base.limits import parse_literal
from ttmem.operators.case import Case, CaseList, CaseTensor, merge_cases
from ttmem.operators.catalogue_entries import catalogue

_ARGUMENT = re.compile(r"(?P<type>\S.*?)\s+(?P<name>\w+)\s*=\s*(?P<value>.*)", re.DOTALL)
_TYPED_SHAPE = re.compile(r"Tensor<(\[[^\]]*\])>")
_SHAPES = re.compile(r"<\s*(\[[^\]]*\])\s*>")
_LINE = re.compile(r"^\s*aten[.:]+(?P<op>\w+)(?:\.\w+)?\s*[:,;\t]\s*(?P<rest>.*\bTensor\b.*=.*)$")
_SPLIT = re.compile(
    r",\s*(?=(?:Optional\[|List\[|Tensor\b|int\b|float\b|bool\b|number\b|Scalar\b|str\b|SymInt\b)[^=,]*=)"
)


_SIZE = re.compile(r"[0-9]{1,18}")


class _NoSizeError(Exception):
    """A symbol in a shape."""


def looks_like(text: str) -> bool:
    head = text[:4000]
    return head.lstrip().startswith("Variation #") or any(_LINE.match(line) for line in head.splitlines())


def read(text: str, label: str, place: str) -> CaseList:
    """``label`` is the file's name, which says the operator of a CSV."""
    skipped: Counter[str] = Counter()
    cases = []
    for op, cells in _entries(text, label, place):
        try:
            cases.append(_case(op, cells))
        except _NoSizeError:
            skipped["rows whose shapes hold symbols"] += 1
        except ValueError:
            skipped["rows that cannot be understood"] += 1
    return CaseList("variations", tuple(merge_cases(cases)), dict(skipped))


def _entries(text: str, label: str, place: str) -> list[tuple[str, list[str]]]:
    if text.lstrip().startswith("Variation #"):
        match = re.match(r"aten[.:]+(\w+)", label)
        if match is None:
            raise BadInputError("the file's name must say the operator", where=place, hint="name it aten.<op>.<x>.csv")
        rows = list(csv.reader(text.splitlines()))[1:]
        return [(catalogue().aten_name(match[1]), row[1:]) for row in rows if len(row) > 1]
    found = [_LINE.match(line) for line in text.splitlines()]
    return [
        (catalogue().aten_name(line["op"]), _SPLIT.split(line["rest"].strip().strip('"'))) for line in found if line
    ]


def _case(op: str, cells: list[str]) -> Case:
    tensors: list[CaseTensor] = []
    args: dict[str, Any] = {}
    for cell in cells:
        text = cell.strip().strip('"').strip()
        if not text:
            continue
        match = _ARGUMENT.match(text)
        if match is None:
            raise ValueError(text)
        name, value = match["name"], match["value"].strip().rstrip(",")
        name = {"input": _first_name(op)}.get(name, name)
        if shape := _TYPED_SHAPE.search(match["type"]):
            tensors.append(CaseTensor(_shape(shape[1]), name=_is_known(op, name)))
        elif "Tensor" in match["type"] and "<" in value:
            tensors += [CaseTensor(_shape(shape), name=_is_known(op, name)) for shape in _SHAPES.findall(value)]
        else:
            args[name] = _value(value)
    if not tensors and not args:
        raise ValueError("empty")
    return Case(op, tuple(tensors), args)


def _first_name(op: str) -> str:
    operator = catalogue().find(op)
    return operator.tensor_names[0] if operator and operator.tensor_names else "input"


def _is_known(op: str, name: str) -> str:
    operator = catalogue().find(op)
    return name if operator and name in operator.tensor_names else ""


def _shape(text: str) -> tuple[int, ...]:
    sizes = [size.strip() for size in text.strip("[]").split(",") if size.strip()]
    if not all(_SIZE.fullmatch(size) for size in sizes):
        raise _NoSizeError(text)
    return tuple(int(size) for size in sizes)


def _value(text: str) -> Any:
    if text in ("?", ""):
        raise ValueError(text)
    word = re.sub(r"torch\.", "", text)
    try:
        value = parse_literal(word)
    except ValueError:
        return word
    return list(value) if isinstance(value, tuple) else value
