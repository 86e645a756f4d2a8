# SPDX-License-Identifier: Apache-2.0
"""A registry of frozen values by name: every piece of hardware is looked up here, never compared with `if`."""

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from ttmem.base.errors import BadInputError


class Registered(Protocol):
    """A value that a registry can hold."""

    @property
    def name(self) -> str: ...

    @property
    def aliases(self) -> tuple[str, ...]: ...


class ByName:
    """A record that prints and hashes as its name (a dataclass would hash every field)."""

    __slots__ = ()
    name: str

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


T = TypeVar("T", bound=Registered)


def _fold(name: str) -> str:
    return name.strip().lower()


class Registry(Generic[T]):
    """Values by canonical name and alias; spelling is case-insensitive, a wrong name gets a suggestion."""

    def __init__(self, kind: str, values: Iterable[T], *, fold: Callable[[str], str] = _fold) -> None:
        self._kind = kind
        self._fold = fold
        self._values: tuple[T, ...] = ()
        self._by_name: dict[str, T] = {}
        for value in values:
            self.add(value)

    def add(self, value: T) -> T:
        """Register one more value, under all its names; it is found by everything that asks this registry."""
        spellings = {self._fold(spelling): spelling for spelling in (value.name, *value.aliases)}
        if taken := [spelling for folded, spelling in spellings.items() if folded in self._by_name]:
            raise ValueError(f"{self._kind} {taken[0]!r} is registered twice")
        self._by_name.update(dict.fromkeys(spellings, value))
        self._values = (*self._values, value)
        return value

    def remove(self, name: str) -> None:
        """Forget a value that was added, with all its names."""
        gone = self.find(name)
        self._values = tuple(value for value in self._values if value is not gone)
        self._by_name = {spelling: value for spelling, value in self._by_name.items() if value is not gone}

    def find(self, name: str) -> T:
        """Return the value of that name, or raise a BadInputError that suggests the nearest one."""
        value = self.get(name)
        if value is not None:
            return value
        known = [self._fold(v.name) for v in self._values]
        near = difflib.get_close_matches(self._fold(name), list(self._by_name), n=1, cutoff=0.6)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        raise BadInputError(f"unknown {self._kind} {name!r}{guess}", hint=f"known: {', '.join(known)}")

    def get(self, name: str) -> T | None:
        """Return the value of that name, or None: for readers that must continue after an unknown word."""
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
