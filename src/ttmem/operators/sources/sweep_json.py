# SPDX-License-Identifier: Apache-2.0
"""Vectors of tt-metal's sweep framework: ``suite -> hash -> parameters``, most values as texts.

Only the module's name (the file's) says the operator; shapes are found by their parameters' names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ttmem.base.limits import parse_literal
from ttmem.operators.case import Case, CaseList, CaseTensor, ModelUse, merge_cases
from ttmem.operators.catalogue_entries import catalogue
from ttmem.operators.sources.master_json import type_of


def looks_like(document: Any) -> bool:
    return any(True for _ in _vectors(document))


def read(document: Any, module: str) -> CaseList:
    """``module`` is the file's name without its ending: ``eltwise.unary.silu.silu``."""
    skipped: Counter[str] = Counter()
    cases = []
    for suite, vector in _vectors(document):
        name = str(vector.get("op_name") or vector.get("sweep_name") or module)
        op = catalogue().aten_of_ttnn(name.removesuffix("_sweep"))
        shapes = _shapes(vector)
        if not op:
            skipped[f"vectors of '{name}', which is no known operator"] += 1
        elif not shapes:
            skipped["vectors without a shape"] += 1
        else:
            types = _types(vector, len(shapes))
            tensors = tuple(CaseTensor(shape, dtype) for shape, dtype in zip(shapes, types, strict=True))
            cases.append(Case(op, tensors, _scalars(op, vector), (ModelUse(suite),)))
    return CaseList("sweep-json", tuple(merge_cases(cases)), dict(skipped))


def _vectors(document: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield parameter sets with a shape, at any depth of suites and hashes."""
    if isinstance(document, list):
        for item in document:
            if isinstance(item, Mapping) and _has_shape(item):
                yield str(item.get("suite_name", "sweep")), item
        return
    if not isinstance(document, Mapping):
        return
    for suite, vectors in document.items():
        if isinstance(vectors, Mapping):
            if _has_shape(vectors):
                yield "sweep", vectors
            for vector in vectors.values():
                if isinstance(vector, Mapping) and _has_shape(vector):
                    yield str(suite), vector


def _has_shape(vector: Mapping[str, Any]) -> bool:
    return any("shape" in str(name) for name in vector)


def _literal(value: Any) -> Any:
    if isinstance(value, Mapping) and "data" in value:
        return value["data"]
    if isinstance(value, str):
        with suppress(ValueError):
            return parse_literal(value)
    return value


def _shapes(vector: Mapping[str, Any]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for name, value in vector.items():
        if "shape" in name and "shard" not in name and "grid" not in name:
            found += _sizes(_literal(value))
    return found


def _sizes(value: Any) -> list[tuple[int, ...]]:
    if isinstance(value, Mapping):
        return [shape for item in value.values() for shape in _sizes(_literal(item))]
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(size, int) for size in value):
            return [tuple(value)]
        return [shape for item in value for shape in _sizes(item)]
    return []


def _types(vector: Mapping[str, Any], count: int) -> list[str]:
    types = [type_of(_literal(value)) for name, value in vector.items() if "dtype" in name and "output" not in name]
    return (types + [types[-1] if types else "bfloat16"] * count)[:count]


def _scalars(op: str, vector: Mapping[str, Any]) -> dict[str, Any]:
    operator = catalogue().operators[op]
    found = {name: _literal(vector[name]) for name in operator.args if name in vector}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
