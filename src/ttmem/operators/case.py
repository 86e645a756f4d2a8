# SPDX-License-Identifier: Apache-2.0
"""A case: one operator with everything its memory need depends on, and who uses it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ttmem._errors import BadInputError

_MOST_MODULES = 8
"""Module paths kept per model: enough to find the place, while a transformer repeats a case once per layer."""


@dataclass(frozen=True, slots=True)
class CaseTensor:
    """One tensor argument as the model has it; what a device makes of it is the recipe's matter."""

    shape: tuple[int, ...]
    dtype: str = "bfloat16"
    """As the model has it (``float32``, ``int64``, ``bool``); sources that do not say mean ``bfloat16``."""
    name: str = ""
    """Its name in the aten schema, the same for all items of a list; empty: by position."""
    is_parameter: bool = False
    """A weight, which lives as long as the model does; as the first call says and no part of a case's identity."""

    def to_json(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"shape": list(self.shape), "dtype": self.dtype}
        if self.name:
            entry["name"] = self.name
        if self.is_parameter:
            entry["parameter"] = True
        return entry


@dataclass(frozen=True, slots=True)
class ModelUse:
    """How often a model calls the case, and from where."""

    model: str
    count: int = 1
    size: str = ""
    """The input size it was traced at (``2176x3840``), empty when it has none."""
    modules: tuple[str, ...] = ()
    """Module paths, the first few of them."""

    def to_json(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"model": self.model, "count": self.count}
        if self.size:
            entry["size"] = self.size
        if self.modules:
            entry["modules"] = list(self.modules)
        return entry


@dataclass(frozen=True, slots=True)
class Case:
    """Operator + shapes + dtypes + scalars. Two cases with the same of these have the same ``id``."""

    op: str
    """The aten name without overload: ``silu``, ``_softmax``, ``split_with_sizes``."""
    tensors: tuple[CaseTensor, ...]
    args: Mapping[str, Any] = field(default_factory=dict)
    """The non-tensor arguments by their aten schema names."""
    uses: tuple[ModelUse, ...] = ()
    outputs: tuple[CaseTensor, ...] = ()
    """What the model got from it; empty when the source does not say."""
    id: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", _identity(self))

    @property
    def count(self) -> int:
        return sum(use.count for use in self.uses) or 1

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that use it, each once."""
        return tuple(dict.fromkeys(use.model for use in self.uses))

    def to_json(self) -> dict[str, Any]:
        """One line of a case file."""
        entry: dict[str, Any] = {
            "id": self.id,
            "op": self.op,
            "tensors": [tensor.to_json() for tensor in self.tensors],
            "args": dict(self.args),
            "models": list(self.models),
            "count": self.count,
        }
        if self.outputs:
            entry["outputs"] = [tensor.to_json() for tensor in self.outputs]
        if self.uses:
            entry["uses"] = [use.to_json() for use in self.uses]
        return entry


def _identity(case: Case) -> str:
    """Readable first, unique by the hash: people search results for a shape, programs for the whole id."""
    shapes = "_".join("x".join(map(str, tensor.shape)) or "scalar" for tensor in case.tensors[:2])
    facts = [
        case.op,
        [[list(tensor.shape), tensor.dtype, tensor.name] for tensor in case.tensors],
        dict(case.args),
    ]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:8]
    return "-".join(part for part in (case.op, shapes, digest) if part)


def case_from_json(raw: Any, *, where: str = "") -> Case:
    """The case of one line; ``BadInputError`` says which key is wrong."""
    if not isinstance(raw, Mapping):
        raise BadInputError("a case is a JSON object", where=where)
    op = raw.get("op")
    if not isinstance(op, str) or not re.fullmatch(r"\w+", op):
        raise BadInputError(f"'op' must be an aten name without overload, not {op!r}", where=where)
    arguments = raw.get("args", {})
    if not isinstance(arguments, Mapping):
        raise BadInputError("'args' must be an object: argument name -> value", where=where)
    identity = raw.get("id", "")
    if not isinstance(identity, str):
        raise BadInputError("'id' must be a text", where=where)
    return Case(
        op=op,
        tensors=_tensors(raw.get("tensors", []), "tensors", where),
        args=dict(arguments),
        uses=_uses(raw, where),
        outputs=_tensors(raw.get("outputs", []), "outputs", where),
        id=identity,
    )


def _tensors(raw: Any, key: str, where: str) -> tuple[CaseTensor, ...]:
    if not isinstance(raw, list) or not all(isinstance(item, Mapping) for item in raw):
        raise BadInputError(f"'{key}' must be a list of objects with 'shape' and 'dtype'", where=where)
    found = []
    for item in raw:
        shape = item.get("shape")
        if not isinstance(shape, list) or not all(_is_count(size) for size in shape):
            raise BadInputError(f"'shape' in '{key}' must be a list of sizes, not {shape!r}", where=where)
        dtype, name = item.get("dtype", "bfloat16"), item.get("name", "")
        if not isinstance(dtype, str) or not isinstance(name, str):
            raise BadInputError(f"'dtype' and 'name' in '{key}' must be texts", where=where)
        found.append(CaseTensor(tuple(shape), dtype, name, bool(item.get("parameter", False))))
    return tuple(found)


def _uses(raw: Mapping[str, Any], where: str) -> tuple[ModelUse, ...]:
    """``uses`` where the line has it; else from ``models`` and ``count``, which say less."""
    uses = raw.get("uses")
    if isinstance(uses, list):
        if not all(isinstance(use, Mapping) and isinstance(use.get("model"), str) for use in uses):
            raise BadInputError("'uses' must be a list of objects with 'model'", where=where)
        return tuple(
            ModelUse(
                use["model"],
                _count(use.get("count", 1), where),
                str(use.get("size", "")),
                tuple(map(str, use.get("modules", ()))),
            )
            for use in uses
        )
    models = raw.get("models", [])
    if not isinstance(models, list) or not all(isinstance(model, str) for model in models):
        raise BadInputError("'models' must be a list of names", where=where)
    count = _count(raw.get("count", 1), where)
    if not models:
        return (ModelUse("", count),) if count != 1 else ()
    each, rest = divmod(count, len(models))
    return tuple(ModelUse(model, each + (index < rest)) for index, model in enumerate(models))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _count(value: Any, where: str) -> int:
    if not _is_count(value):
        raise BadInputError(f"'count' must be a number of calls, not {value!r}", where=where)
    return int(value)


def merge_cases(cases: Iterable[Case]) -> list[Case]:
    """Equal cases become one with all their uses, in the order of first sight."""
    merged: dict[str, Case] = {}
    for case in cases:
        before = merged.get(case.id)
        if before is None:
            merged[case.id] = case
        else:
            merged[case.id] = replace(
                before, uses=_merged_uses((*before.uses, *case.uses)), outputs=before.outputs or case.outputs
            )
    return list(merged.values())


def _merged_uses(uses: Iterable[ModelUse]) -> tuple[ModelUse, ...]:
    merged: dict[tuple[str, str], ModelUse] = {}
    for use in uses:
        key = use.model, use.size
        before = merged.get(key)
        if before is None:
            merged[key] = use
        else:
            modules = tuple(dict.fromkeys((*before.modules, *use.modules)))[:_MOST_MODULES]
            merged[key] = replace(before, count=before.count + use.count, modules=modules)
    return tuple(merged.values())
