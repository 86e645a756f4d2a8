# SPDX-License-Identifier: Apache-2.0
"""What typed documents have in common: fields in the order of the answer, keyword arguments, no change afterwards."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

__all__ = ["UNSET", "Document", "OperationPlace", "OperationRef", "UnsetType", "rank_or_none"]

_Document = TypeVar("_Document", bound="Document")


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a JSON answer. A field that is UNSET is left out of it.

    A whole answer begins with ``schema: Literal["ttmem.NAME/1"] = "ttmem.NAME/1"`` and stands in
    ``reports/documents.py``.
    """

    @classmethod
    def of(cls: type[_Document], source: object, /, **given: Any) -> _Document:
        """The document of a result: what is not given is the source's attribute of the same name, at every depth."""
        return msgspec.convert(_Overlay(source, given), cls, from_attributes=True)

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, texts and numbers."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class _Overlay:
    """An object seen with some attributes of its own; one that is UNSET hides the object's."""

    def __init__(self, source: object, given: dict[str, Any]) -> None:
        self.__dict__.update({name: value for name, value in given.items() if value is not UNSET})
        self.__dict__["_behind"] = source, {name for name, value in given.items() if value is UNSET}

    def __getattr__(self, name: str) -> Any:
        source, hidden = self.__dict__["_behind"]
        if name in hidden:
            raise AttributeError(name)
        return getattr(source, name)


class OperationRef(Document, frozen=True, kw_only=True):
    """An executed operation; the index is null for what no operation of the source did."""

    index: int | None
    name: str


class OperationPlace(Document, frozen=True, kw_only=True):
    """An executed operation and where its program's source has it."""

    index: int
    name: str
    location: str


def rank_or_none(rank: int) -> int | None:
    """Sources without MPI have no ranks."""
    return rank if rank >= 0 else None
