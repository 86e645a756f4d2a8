# SPDX-License-Identifier: Apache-2.0
"""The base of typed documents, and JSON text.

A text below a field describes it: ``tools/schemas.py`` writes it into ``docs/schemas``. Where the key of the JSON
differs from the name of the field, ``msgspec.field(name=...)`` gives it. A part whose keys are those of a result is
that result.

A document is a contract: keys may be added, never renamed or removed; a change that breaks a reader gets a new number.
"""

import importlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

__all__ = ["UNSET", "Document", "UnsetType", "find_documents", "format_json", "format_json_pieces", "round_floats"]

_ENTRIES = 500


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON answer, or a part of one. A field that is UNSET is left out of it.

    A whole answer says so with ``tag_field="schema", tag="ttmem.NAME/1"``: its first key.
    """

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries, lists, texts and numbers, as a reader of the JSON gets them."""
        plain: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(self)))
        return plain


def round_floats(value: Any, decimals: int | None = 2) -> Any:
    """Round a float, or the two floats of a range; return anything else unchanged."""
    if decimals is None:
        return value
    if isinstance(value, float):
        return round(value, decimals)
    if isinstance(value, tuple) and value and isinstance(value[0], float):
        return tuple(round(bound, decimals) for bound in value)
    return value


def format_json(document: Any, indent: int = 2) -> str:
    """Format plain values as ASCII JSON; first flat, then indented, which is much faster."""
    try:
        compact = json.dumps(document, allow_nan=False)
    except ValueError:  # infinite figures of a source become null
        compact = json.dumps(_drop_non_finite(document), allow_nan=False)
    try:
        return msgspec.json.format(compact, indent=indent)
    except msgspec.DecodeError:
        # A file name that is not UTF-8 holds lone surrogates, which strict parsers refuse.
        printable = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        return msgspec.json.format(json.dumps(json.loads(printable)), indent=indent)


def format_json_pieces(document: Any, indent: int = 2, level: int = 0) -> Iterator[str]:
    """Yield the text of ``format_json`` in pieces of a few hundred entries, never as one long text."""
    if not isinstance(document, dict | list) or not document:
        yield format_json(document, indent)
        return
    is_mapping = isinstance(document, dict)
    entries = document.items() if isinstance(document, dict) else enumerate(document)
    opening, closing = "{}" if is_mapping else "[]"
    margin = " " * indent * level
    comma = ""
    few: list[tuple[Any, Any]] = []

    def together() -> Iterator[str]:
        nonlocal comma
        if few:
            text = format_json(dict(few) if is_mapping else [value for _, value in few], indent)
            yield comma + text[1:-2].replace("\n", f"\n{margin}")
            few.clear()
            comma = ","

    yield opening
    for key, value in entries:
        if _has_many(value):
            yield from together()
            yield f"{comma}\n{margin}{' ' * indent}{format_json(key) + ': ' if is_mapping else ''}"
            yield from format_json_pieces(value, indent, level + 1)
            comma = ","
        else:
            few.append((key, value))
            if len(few) == _ENTRIES:
                yield from together()
    yield from together()
    yield f"\n{margin}{closing}"


def _has_many(value: Any, below: int = 1) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return len(value) > _ENTRIES or (below > 0 and any(_has_many(one, below - 1) for one in inner))


def _drop_non_finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _drop_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_drop_non_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def find_documents() -> dict[str, type[Document]]:
    """Return the type of every ``--json`` document by its schema, in the order of the schemas."""
    for module in Path(__file__).parents[1].glob("*.py"):
        importlib.import_module(f"ttmem.reports.{module.stem}")
    found = {str(one.__struct_config__.tag): one for one in _find_answers(Document)}
    return dict(sorted(found.items()))


def _find_answers(document: type[Document]) -> Iterator[type[Document]]:
    """Yield the subclasses that are whole answers."""
    for one in document.__subclasses__():
        if one.__struct_config__.tag_field == "schema":
            yield one
        yield from _find_answers(one)
