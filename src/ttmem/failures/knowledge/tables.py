# SPDX-License-Identifier: Apache-2.0
"""What is known about failures, read from ``knowledge/*.toml`` when it is first needed: a new message is a new entry.

One file per family of classes. Four tables are about texts:

- ``[[class]]`` what a class means and which status its results have;
- ``[[template]]`` what the library prints (``_template`` describes the language);
- ``[[wording]]`` what texts say that are no failures of memory;
- ``[[paraphrase]]`` how people speak of a class in their own words.

The others are each ``for`` the classes they name:

- ``[[quantity]]`` a figure that follows from others; later entries may use earlier ones;
- ``[[headline]]`` the one sentence that says what happened; the first that holds and can be filled counts;
- ``[[arithmetic]]`` a row of the table that a person can check;
- ``[[finding]]`` a remark that holds ``when`` its condition does;
- ``[[remedy]]`` what to change, best first: ``families`` are the kinds of operations that it is for, ``general`` marks
  what is true of the whole class, ``saves_per_bank`` is an expression, ``computes`` names a computation of the twin
  (``savings``), ``effect`` says on what the saving acts, ``evidence`` are public threads where it worked;
- ``[[example]]`` a message and what must be said about it, for the tests; every finding and remedy appears in one.

Conditions, figures and sentences are written in the ``language`` of the knowledge. Where several texts may be given,
one may stand without its list.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from ttmem.base import toml

REQUEST, ROOM, REGION = "request", "room", "region"
"""What a saving acts on: the buffer that did not fit, the space around it, or a program's static buffers."""


@dataclass(frozen=True, slots=True)
class FailureClass:
    """A class: what it means, for a person and as the status of a result."""

    name: str
    meaning: str
    status: str
    """One of ``results.STATUSES``."""
    title: str = ""
    """Heading for results of the class; empty where each message says something else."""
    memory: str | None = None
    """Where it happens, when the messages need not say it."""


@dataclass(frozen=True, slots=True)
class Wording:
    """Words of a text without a class: of Python, of test frameworks, of our own engines."""

    title: str
    words: str
    """A regular expression."""
    status: str = ""
    """Empty: the words do not decide it."""

    def is_in(self, text: str) -> bool:
        return re.search(self.words, text) is not None


@dataclass(frozen=True, slots=True)
class Paraphrase:
    """How people speak of a class; ``oom``: the figures decide which one, ``none``: they speak of something else."""

    words: tuple[str, ...]
    """Regular expressions of which each has to be met."""
    failure_class: str
    memory: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Template:
    """One sentence of the library and what it means."""

    id: str
    text: str
    failure_class: str
    """A class, or ``oom``: the figures decide which one."""
    family: str = ""
    """Templates of one family are wordings of one failure, so a shorter print may repeat a longer one."""
    memory: str | None = None
    rank: str = "error"
    """``error``; ``warning`` when the program went on; and two that count only where no error is: ``wrapper`` says that
    something else failed, ``chatter`` is what a planner prints about a choice that it dropped."""
    place: str = "anywhere"
    """Where a match without any figure counts: ``anywhere`` inside an error or alone on a line; ``line`` and
    ``line-start`` only there, ``line-end`` at the end of one, for words that prose uses too; ``itself`` when the
    wording is proof enough."""
    texts: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", self.family or self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An entry for some classes of failures; ``oom/*`` is a whole family."""

    classes: tuple[str, ...]
    when: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity(Rule):
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline(Rule):
    say: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArithmeticRow(Rule):
    label: str
    value: str
    notes: tuple[str, ...] = ()
    """Alternatives, the fullest first: the first whose figures are all known is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRule(Headline):
    id: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyRule(Rule):
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
    """Comes before all others: a question to ask before anything is changed, or a cause that a capture shows."""
    families: tuple[str, ...] = ()
    """Kinds of operations that it is for (``facts/operations.toml``); not shown when another kind failed."""
    is_general: bool = False
    """True of any failure of its class: it comes last unless its saving can be computed."""
    ends_growth: bool = False
    """It stops what repeats (a loop, a training step); others only make room for one more turn."""


_Entry = TypeVar("_Entry")
_Rule = TypeVar("_Rule", bound=Rule)
_TABLES: dict[str, type] = {
    "class": FailureClass,
    "wording": Wording,
    "template": Template,
    "paraphrase": Paraphrase,
    "quantity": Quantity,
    "headline": Headline,
    "arithmetic": ArithmeticRow,
    "finding": FindingRule,
    "remedy": RemedyRule,
}
_FIELDS = {
    "for": "classes",
    "note": "notes",
    "class": "failure_class",
    "first": "is_first",
    "general": "is_general",
}
"""Keys of the files that are called otherwise here."""
_SEVERAL = frozenset({"for", "note", "do", "why"})


def entries(kind: type[_Entry]) -> tuple[_Entry, ...]:
    """Every entry of a kind, in the order of the knowledge: where two templates or wordings match, the earlier wins."""
    return _entries()[kind]


def applying(kind: type[_Rule], failure_class: str) -> Sequence[_Rule]:
    """The rules of a kind for a class: asked for every failure of a sweep, and the same each time."""
    return _applying(failure_class)[kind]


def documents() -> list[dict[str, Any]]:
    """The content of the files, by name."""
    from importlib.resources import files  # here, because it is slow to import and most runs never fail

    names = sorted(file.name for file in files(__package__).iterdir() if file.name.endswith(".toml"))
    return [toml.load_packaged(__package__, name) for name in names]


@cache
def _entries() -> dict[type, tuple[Any, ...]]:
    read = documents()
    return {
        kind: tuple(kind(**_fields(entry)) for document in read for entry in document.get(table, ()))
        for table, kind in _TABLES.items()
    }


@cache
def _applying(failure_class: str) -> dict[type, list[Any]]:
    patterns = {failure_class, f"{failure_class.partition('/')[0]}/*"}
    return {
        kind: [rule for rule in rules if not patterns.isdisjoint(rule.classes)]
        for kind, rules in _entries().items()
        if issubclass(kind, Rule)
    }


def _fields(entry: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for key, value in entry.items():
        if isinstance(value, str) and (key in _SEVERAL or (key == "words" and "class" in entry)):
            value = (value,)
        found[_FIELDS.get(key, key)] = tuple(value) if isinstance(value, list) else value
    return found


@cache
def _named() -> dict[str, FailureClass]:
    return {known.name: known for known in entries(FailureClass)}


def failure_class_named(name: str) -> FailureClass:
    return _named()[name]


@cache
def template_of(template_id: str) -> Template:
    """The template of a failure; an id from elsewhere (``X1``, an assert of unknown wording) is a family of its own."""
    known = (template for template in entries(Template) if template.id == template_id)
    return next(known, Template(template_id, "", "none"))


def status_of_wording(text: str) -> str:
    """What the words of a text without a class decide; empty when they do not."""
    return next((wording.status for wording in entries(Wording) if wording.status and wording.is_in(text)), "")


def title_of(failure_class: str, message: str) -> str:
    """A heading for results that say the same; empty where the message is its own."""
    known = _named().get(failure_class)
    if known is not None and known.title:
        return known.title
    return next((wording.title for wording in entries(Wording) if wording.is_in(message)), "")
