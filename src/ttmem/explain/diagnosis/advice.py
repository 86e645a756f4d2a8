# SPDX-License-Identifier: Apache-2.0
"""What ``knowledge/`` says about a class of failures: figures to show, findings, remedies, and examples that test them.

Beside ``[[class]]`` and ``[[template]]`` (``knowledge.loading``) a file may hold, each ``for`` the classes it names:

- ``[[quantity]]`` a figure that follows from others; later entries may use earlier ones;
- ``[[headline]]`` the one sentence that says what happened; the first that holds and can be filled counts;
- ``[[arithmetic]]`` a row of the table that a person can check;
- ``[[finding]]`` a remark that holds ``when`` its condition does;
- ``[[remedy]]`` what to change, best first: ``saves_per_bank`` is an expression, ``computes`` names a computation of
  the twin (``savings``), ``effect`` says on what the saving acts, ``evidence`` are public threads where it worked;
- ``[[example]]`` a message and what must be said about it; every finding and remedy has to appear in one.

Conditions, figures and sentences are written in the ``language`` of the knowledge. Where several texts may be given,
one may stand without its list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, TypeVar

from ttmem.explain.knowledge.loading import documents

REQUEST, ROOM, REGION = "request", "room", "region"
"""What a saving acts on: the buffer that did not fit, the space around it, or a program's static buffers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An entry for some classes of failures."""

    classes: tuple[str, ...]
    when: str = ""

    def applies_to(self, failure_class: str) -> bool:
        """Whether it is for this class; ``oom/*`` is for a whole family."""
        return any(fnmatchcase(failure_class, pattern) for pattern in self.classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity(Rule):
    """A figure that follows from others."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline(Rule):
    """One sentence for a class."""

    say: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArithmeticRow(Rule):
    """One figure of the table, and how it comes about."""

    label: str
    value: str
    notes: tuple[str, ...] = ()
    """Alternatives, the fullest first: the first whose figures are all known is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRule(Rule):
    """A remark and when it holds."""

    id: str
    say: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyRule(Rule):
    """A change that helps, and how to work out what it saves."""

    id: str
    do: tuple[str, ...]
    """Alternatives, the most concrete first: the first whose figures are all known is shown."""
    why: tuple[str, ...]
    saves_per_bank: str = ""
    computes: str = ""
    effect: str = ROOM
    solves: str = ""
    """A condition under which it is enough by itself; empty: worked out from the saving."""
    caution: str = ""
    evidence: tuple[str, ...] = ()
    is_first: bool = False
    """A question to ask before anything is changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A message and what must be said about it."""

    thread: str
    text: str
    failure_class: str
    board: str | None = None
    finds: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    saves_per_bank: Mapping[str, int] = field(default_factory=dict, hash=False)
    live: tuple[Mapping[str, Any], ...] = ()
    """Tensors of a profile, as fields of ``LiveTensor``."""
    hints: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What the text cannot say itself, as in ``Context``."""


_Entry = TypeVar("_Entry", Quantity, Headline, ArithmeticRow, FindingRule, RemedyRule, Example)
_Rule = TypeVar("_Rule", Quantity, Headline, ArithmeticRow, FindingRule, RemedyRule)
_TABLES = {
    "quantity": Quantity,
    "headline": Headline,
    "arithmetic": ArithmeticRow,
    "finding": FindingRule,
    "remedy": RemedyRule,
    "example": Example,
}
_FIELDS = {"for": "classes", "note": "notes", "first": "is_first", "of": "thread", "class": "failure_class"}
"""Keys of the files that are called otherwise here."""
_SEVERAL = frozenset({"for", "note", "do", "why"})


def entries(kind: type[_Entry]) -> tuple[_Entry, ...]:
    """Every entry of a kind, in the order of the knowledge."""
    return _entries()[kind]


@cache
def _entries() -> dict[type, tuple[Any, ...]]:
    return {
        kind: tuple(kind(**_fields(entry)) for document in documents() for entry in document.get(table, ()))
        for table, kind in _TABLES.items()
    }


def _fields(entry: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for key, value in entry.items():
        if isinstance(value, str) and key in _SEVERAL:
            value = (value,)
        found[_FIELDS.get(key, key)] = tuple(value) if isinstance(value, list) else value
    return found


def applying(kind: type[_Rule], failure_class: str) -> tuple[_Rule, ...]:
    """The rules of a kind for a class."""
    return _applying(failure_class)[kind]


@cache
def _applying(failure_class: str) -> dict[type, tuple[Any, ...]]:
    """Asked for every failure of a sweep, and the same each time."""
    return {
        kind: tuple(rule for rule in rules if rule.applies_to(failure_class))
        for kind, rules in _entries().items()
        if kind is not Example
    }
