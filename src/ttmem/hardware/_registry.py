# SPDX-License-Identifier: Apache-2.0
"""A registry of frozen values by name: every piece of hardware is looked up here, never compared with `if`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from ttmem._errors import BadInputError


class Named(Protocol):
    """What a value needs to live in a registry."""

    @property
    def name(self) -> str: ...

    @property
    def aliases(self) -> tuple[str, ...]: ...


T = TypeVar("T", bound=Named)


def _fold(name: str) -> str:
    return name.strip().lower()


class Registry(Generic[T]):
    """Values by canonical name and alias; spelling is case-insensitive, a wrong name gets a suggestion."""

    def __init__(self, kind: str, values: Iterable[T], *, fold: Callable[[str], str] = _fold) -> None:
        self._kind = kind
        self._fold = fold
        self._values = tuple(values)
        self._by_name: dict[str, T] = {}
        for value in self._values:
            for spelling in (value.name, *value.aliases):
                if self._by_name.setdefault(fold(spelling), value) is not value:
                    raise ValueError(f"{kind} {spelling!r} is registered twice")

    def find(self, name: str) -> T:
        """The value of that name, or a BadInputError that suggests the nearest one."""
        value = self.get(name)
        if value is not None:
            return value
        known = [self._fold(v.name) for v in self._values]
        near = difflib.get_close_matches(self._fold(name), list(self._by_name), n=1, cutoff=0.6)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        raise BadInputError(f"unknown {self._kind} {name!r}{guess}", hint=f"known: {', '.join(known)}")

    def get(self, name: str) -> T | None:
        """The value of that name, or None: for readers that must go on after an unknown word."""
        return self._by_name.get(self._fold(name))

    def names(self) -> tuple[str, ...]:
        """Canonical names in registration order."""
        return tuple(v.name for v in self._values)

    def __iter__(self) -> Iterator[T]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None
