# SPDX-License-Identifier: Apache-2.0
"""Cases: operators with shapes, data types and scalars, and the files that hold them."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ttmem.base.atomic_files import write_bytes
from ttmem.base.errors import BadInputError
from ttmem.base.limits import NUMBER_BITS
from ttmem.operators.sweeps.result import json_lines

_MOST_MODULES = 8
"""Module paths kept per model: enough to find the place, while a transformer repeats a case once per layer."""
_MOST_SIZE = 1 << 63
Count = Annotated[int, Meta(ge=0, le=_MOST_SIZE - 1)]


class CaseTensor(Struct, frozen=True, omit_defaults=True):
    """A tensor argument of a model; its device form is up to the case program."""

    shape: tuple[Count, ...]
    dtype: str = msgspec.field(default_factory=lambda: "bfloat16")  # a factory: written in any case
    """As the model has it (``float32``, ``int64``, ``bool``); sources that do not say mean ``bfloat16``."""
    name: str = ""
    """Its name in the aten schema, the same for all items of a list; empty: by position."""
    is_parameter: bool = msgspec.field(default=False, name="parameter")
    """A weight, which lives as long as the model does; as the first call says and no part of a case's identity."""


class ModelUse(Struct, frozen=True, omit_defaults=True):
    """Number of calls of the case in a model, and their places."""

    model: str
    count: Count = msgspec.field(default_factory=lambda: 1)
    size: str = ""
    """The input size it was traced at (``2176x3840``), empty when it has none."""
    modules: tuple[str, ...] = ()
    """Module paths, the first few of them."""


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
        if not is_plain(list(self.args.values())):  # objects are the engines' notation for tensors and calls
            raise BadInputError("an argument is a number, a text, a truth or a list of these", where=self.id or self.op)
        for tensor in (*self.tensors, *self.outputs):
            if not all(type(size) is int and 0 <= size < _MOST_SIZE for size in tensor.shape):
                raise BadInputError("a size of a tensor is a whole number below 2**63", where=self.id or self.op)
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
        """A line of a case file."""
        entry: dict[str, Any] = {
            "id": self.id,
            "op": self.op,
            "tensors": _plain(self.tensors),
            "args": dict(self.args),
            "models": list(self.models),
            "count": self.count,
        }
        if self.outputs:
            entry["outputs"] = _plain(self.outputs)
        if self.uses:
            entry["uses"] = _plain(self.uses)
        return entry

    @property
    def question(self) -> tuple[str, tuple[CaseTensor, ...], dict[str, Any]]:
        """Return the question itself, without the id and the origin."""
        return self.op, self.tensors, dict(self.args)


def is_plain(value: Any) -> bool:
    """Return True for values that a line of a file can hold without an object; numbers have a bounded width."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, list | tuple):
            pending += one
        elif isinstance(one, int):
            if one.bit_length() > NUMBER_BITS:
                return False
        elif not isinstance(one, str | float | None):
            return False
    return True


def _plain(parts: tuple[Struct, ...]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(parts))


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


class _Line(Struct):
    """A line of a case file."""

    op: Annotated[str, Meta(pattern=r"^(\w+::)?\w+$")]
    tensors: tuple[CaseTensor, ...] = ()
    args: dict[str, Any] = {}
    id: str = ""
    outputs: tuple[CaseTensor, ...] = ()
    uses: tuple[ModelUse, ...] | None = None
    models: tuple[str, ...] = ()
    count: Count = 1


_FORMS = {
    "op": "an aten name without overload",
    "args": "an object: argument name -> value",
    "tensors": "a list of objects with 'shape' and 'dtype'",
    "outputs": "a list of objects with 'shape' and 'dtype'",
    "shape": "a list of sizes",
    "uses": "a list of objects with 'model'",
    "models": "a list of names",
    "count": "a number of calls",
}
"""What the keys of a line must be; the others are texts."""


def case_from_json(raw: Any, *, where: str = "") -> Case:
    """The case of one line; ``BadInputError`` says which key is wrong."""
    if not isinstance(raw, Mapping):
        raise BadInputError("a case is a JSON object", where=where)
    try:
        line = msgspec.convert(raw, _Line)
    except msgspec.ValidationError as error:
        *outer, key = re.findall(r"(?<=\.)\w+", str(error)) + re.findall(r"field `(\w+)`", str(error))
        place = f"'{key}' in '{outer[0]}'" if outer else f"'{key}'"
        raise BadInputError(f"{place} must be {_FORMS.get(key, 'a text')}", where=where) from None
    except UnicodeEncodeError:
        raise BadInputError("holds half a surrogate pair, which is no text", where=where) from None
    return Case(line.op, line.tensors, line.args, _uses(line), line.outputs, line.id)


def _uses(line: _Line) -> tuple[ModelUse, ...]:
    """``uses`` where the line has it; else from ``models`` and ``count``, which say less."""
    if line.uses is not None:
        return line.uses
    if not line.models:
        return (ModelUse("", line.count),) if line.count != 1 else ()
    each, rest = divmod(line.count, len(line.models))
    return tuple(ModelUse(model, each + (index < rest)) for index, model in enumerate(line.models))


def distinct_cases(cases: Iterable[Case], *, where: str = "") -> list[Case]:
    """Keep one case per id. Results are stored by id: two different cases with one id would be mixed up."""
    found: dict[str, Case] = {}
    for case in cases:
        before = found.setdefault(case.id, case)
        if before is not case and before.question != case.question:
            raise BadInputError(f"two different cases have the id '{case.id}'", where=where, hint="leave 'id' out")
    return list(found.values())


def merge_cases(cases: Iterable[Case]) -> list[Case]:
    """Equal cases become one with all their uses, in the order of first sight."""
    merged: dict[str, Case] = {}
    for case in cases:
        before = merged.get(case.id)
        if before is None:
            merged[case.id] = case
        else:
            merged[case.id] = replace(
                before, uses=_merge_uses((*before.uses, *case.uses)), outputs=before.outputs or case.outputs
            )
    return list(merged.values())


def _merge_uses(uses: Iterable[ModelUse]) -> tuple[ModelUse, ...]:
    merged: dict[tuple[str, str], ModelUse] = {}
    for use in uses:
        key = use.model, use.size
        before = merged.get(key)
        if before is None:
            merged[key] = use
        else:
            modules = tuple(dict.fromkeys((*before.modules, *use.modules)))[:_MOST_MODULES]
            merged[key] = msgspec.structs.replace(before, count=before.count + use.count, modules=modules)
    return tuple(merged.values())


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
    """Read the cases of a file; a bad line is refused with its number, and so is a file without cases."""
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
