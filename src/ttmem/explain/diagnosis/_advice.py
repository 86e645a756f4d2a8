# SPDX-License-Identifier: Apache-2.0
"""What ``knowledge/`` says about a class of failures: figures to show, findings, remedies, and examples that test them.

Beside ``[[class]]`` and ``[[template]]`` (``_knowledge``) a file may hold, each for the classes named in ``for``:

- ``[[quantity]]`` a figure that follows from others; later entries may use earlier ones;
- ``[[headline]]`` the one sentence that says what happened; the first that holds and can be filled counts;
- ``[[arithmetic]]`` a row of the table that a person can check;
- ``[[finding]]`` a remark that holds ``when`` its condition does;
- ``[[remedy]]`` what to change, best first: ``saves_per_bank`` is an expression, ``computes`` names a computation of
  the twin (``savings``), ``effect`` says on what the saving acts, ``evidence`` are public threads where it worked;
- ``[[example]]`` a message and what must be said about it; every finding and remedy has to appear in one.

Conditions and figures are expressions (``_expression``), texts are filled by ``_wording``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, TypeVar

from ttmem.explain.knowledge.loading import documents

REQUEST, ROOM, REGION = "request", "room", "region"
"""What a saving acts on: the buffer that did not fit, the space around it, or a program's static buffers."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A figure that follows from others."""

    classes: tuple[str, ...]
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Headline:
    """One sentence for a class."""

    classes: tuple[str, ...]
    when: str
    say: str


@dataclass(frozen=True, slots=True)
class ArithmeticRow:
    """One figure of the table, and how it comes about."""

    classes: tuple[str, ...]
    when: str
    label: str
    value: str
    notes: tuple[str, ...]
    """Alternatives, the fullest first: the first whose figures are all known is shown."""


@dataclass(frozen=True, slots=True)
class FindingRule:
    """A remark and when it holds."""

    id: str
    classes: tuple[str, ...]
    when: str
    say: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemedyRule:
    """A change that helps, and how to work out what it saves."""

    id: str
    classes: tuple[str, ...]
    when: str
    do: tuple[str, ...]
    """Alternatives, the most concrete first: the first whose figures are all known is shown."""
    why: tuple[str, ...]
    saves_per_bank: str
    computes: str
    effect: str
    solves: str
    """A condition under which it is enough by itself; empty: worked out from the saving."""
    caution: str
    evidence: tuple[str, ...]
    is_first: bool = False
    """A question to ask before anything is changed."""


@dataclass(frozen=True, slots=True)
class Example:
    """A message and what must be said about it."""

    thread: str
    text: str
    failure_class: str
    board: str | None
    finds: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    saves_per_bank: Mapping[str, int] = field(default_factory=dict, hash=False)
    live: tuple[Mapping[str, Any], ...] = ()
    """Tensors of a profile, as fields of ``LiveTensor``."""
    hints: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What the text cannot say itself, as in ``Context``."""


Rule = TypeVar("Rule", Quantity, Headline, ArithmeticRow, FindingRule, RemedyRule)


def applying(rules: Iterable[Rule], failure_class: str) -> list[Rule]:
    """The rules for a class, in the order of the knowledge."""
    return [rule for rule in rules if any(fnmatchcase(failure_class, pattern) for pattern in rule.classes)]


@cache
def quantities() -> tuple[Quantity, ...]:
    """Every derived figure."""
    return tuple(Quantity(_classes(entry), entry["name"], entry["value"]) for entry in _entries("quantity"))


@cache
def headlines() -> tuple[Headline, ...]:
    """Every headline."""
    return tuple(Headline(_classes(entry), entry.get("when", ""), entry["say"]) for entry in _entries("headline"))


@cache
def arithmetic_rows() -> tuple[ArithmeticRow, ...]:
    """Every row of the table."""
    return tuple(
        ArithmeticRow(
            _classes(entry), entry.get("when", ""), entry["label"], entry["value"], _texts(entry.get("note", ()))
        )
        for entry in _entries("arithmetic")
    )


@cache
def finding_rules() -> tuple[FindingRule, ...]:
    """Every finding."""
    return tuple(
        FindingRule(entry["id"], _classes(entry), entry.get("when", ""), entry["say"], tuple(entry.get("evidence", ())))
        for entry in _entries("finding")
    )


@cache
def remedy_rules() -> tuple[RemedyRule, ...]:
    """Every remedy, best first within a file."""
    return tuple(
        RemedyRule(
            id=entry["id"],
            classes=_classes(entry),
            when=entry.get("when", ""),
            do=_texts(entry["do"]),
            why=_texts(entry["why"]),
            saves_per_bank=entry.get("saves_per_bank", ""),
            computes=entry.get("computes", ""),
            effect=entry.get("effect", ROOM),
            solves=entry.get("solves", ""),
            caution=entry.get("caution", ""),
            evidence=tuple(entry.get("evidence", ())),
            is_first=entry.get("first", False),
        )
        for entry in _entries("remedy")
    )


@cache
def examples() -> tuple[Example, ...]:
    """Every example."""
    return tuple(
        Example(
            thread=entry["of"],
            text=entry["text"],
            failure_class=entry["class"],
            board=entry.get("board"),
            finds=tuple(entry.get("finds", ())),
            remedies=tuple(entry.get("remedies", ())),
            saves_per_bank=dict(entry.get("saves_per_bank", {})),
            live=tuple(entry.get("live", ())),
            hints=dict(entry.get("hints", {})),
        )
        for entry in _entries("example")
    )


def _entries(kind: str) -> Iterable[dict[str, Any]]:
    return [entry for document in documents() for entry in document.get(kind, ())]


def _classes(entry: dict[str, Any]) -> tuple[str, ...]:
    return _texts(entry["for"])


def _texts(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
