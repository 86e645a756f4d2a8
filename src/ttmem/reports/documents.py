# SPDX-License-Identifier: Apache-2.0
"""Documents: the answers that ``--json`` prints, as types.

A document is a frozen struct whose ``schema`` says which one it is and in which version; keys may be added, never
renamed or removed. A field has the name that the analysis gives the figure, so that most of a document is filled from
the result's own attributes; where the key in the JSON differs, ``msgspec.field(name=...)`` says so. A text below a
field describes it; ``tools/schemas.py`` writes it into ``docs/schemas``.
"""

from __future__ import annotations

import importlib.util
import pkgutil
from typing import Any, TypeVar

import msgspec

_Part = TypeVar("_Part", bound="Part")


class Part(msgspec.Struct, frozen=True):
    """An object inside a document."""

    @classmethod
    def of(cls: type[_Part], source: object, *, decimals: int | None = None, **given: object) -> _Part:
        """What ``source`` holds under the names of the fields, floats rounded; ``given`` says the rest.

        Lists and mappings of results become those of parts by the same rule.
        """
        found = {
            key: given[name] if name in given else rounded(getattr(source, name), decimals)
            for name, key in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
            if name in given or hasattr(source, name)
        }
        return msgspec.convert(found, cls, from_attributes=True)

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists and values, in the order of the fields."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class Document(Part, frozen=True, tag_field="schema"):
    """A whole answer: its tag is the value of ``schema``."""


def documents() -> dict[str, type[Document]]:
    """Every document by its schema. The list is the folder: each ``reports/<subject>/document.py`` counts."""
    from ttmem import reports

    for entry in pkgutil.iter_modules(reports.__path__):
        name = f"{reports.__name__}.{entry.name}.document"
        if entry.ispkg and importlib.util.find_spec(name):
            importlib.import_module(name)
    ours = [one for one in Document.__subclasses__() if one.__module__.startswith(f"{reports.__name__}.")]
    return {str(one.__struct_config__.tag): one for one in ours}


def rounded(value: Any, decimals: int | None = 2) -> Any:
    """Floats, alone or as the ends of a range, to so many decimals; anything else as it is."""
    if decimals is None:
        return value
    if isinstance(value, float):
        return round(value, decimals)
    if isinstance(value, tuple) and value and isinstance(value[0], float):
        return tuple(round(bound, decimals) for bound in value)
    return value
