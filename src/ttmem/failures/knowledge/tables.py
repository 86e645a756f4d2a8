# SPDX-License-Identifier: Apache-2.0
"""Tables of the knowledge about failures, ``knowledge/*.toml``, loaded when first needed: a new message is a new entry.

There is one file per family of classes. Four tables are about texts:

- ``[[class]]`` the meaning of a class and the status of its results;
- ``[[template]]`` a sentence of the library (``text.template`` describes the language);
- ``[[wording]]`` texts that are no failures of memory;
- ``[[paraphrase]]`` words that people use for a class.

The others are each ``for`` the classes they name:

- ``[[quantity]]`` a figure that follows from others; later entries may use earlier ones;
- ``[[headline]]`` the one sentence about the failure; the first that is true and can be filled counts;
- ``[[arithmetic]]`` a row of the table that a person can check;
- ``[[finding]]`` a remark that holds ``when`` its condition does;
- ``[[remedy]]`` a change, best first: ``families`` are the kinds of operations that it is for, ``general`` marks what
  is true of the whole class, ``saves_per_bank`` is an expression, ``computes`` names a computation of ``savings``,
  ``effect`` names what the saving acts on, ``evidence`` are public threads where it worked;
- ``[[example]]`` a message and what must be said about it, for the tests; every finding and remedy appears in one.

Conditions, figures and sentences are written in one language: expressions (``bytes_per_bank - largest_free``) over the
known facts of a failure. A message may lack any figure; an expression with an unknown name has no value, and a sentence
that needs one cannot be filled. A slot holds an expression and its format: ``{free}`` 1,024, ``{free:bytes}`` 1,024 B,
``{free:mb}`` 0.001 MiB, ``{free:plain}`` 1024 (to be typed), ``{percent(free, bank_bytes):percent}`` 12.5%,
``{tensors:of tensor}`` 2 tensors. Where several texts are allowed, a single one needs no list.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from ttmem.base import toml
from ttmem.base.expression import ExpressionError, Language, NoValueError

Value = int | float | str | bool
Names = Mapping[str, Value]

_LANGUAGE = Language(
    constants=(int, float, str),
    groups=True,
    partial=True,
    functions={
        "ceil_div": lambda value, by: -(-value // by),
        "round_up": lambda value, to: -(-value // to) * to,
        "percent": lambda part, whole: 100 * part / whole,
        "min": min,
        "max": max,
    },
)


def evaluate(expression: str, names: Names) -> Value | None:
    """The value, or None when it depends on a name that is not known (or on a division by nothing)."""
    try:
        value: Value = _LANGUAGE.evaluate(expression, names)
    except NoValueError:
        return None
    return value


def is_true(condition: str, names: Names) -> bool:
    """True when a condition is known to be true; an empty condition is."""
    return not condition or evaluate(condition, names) is True


_MIB = 1 << 20
_SLOT = r"\{([^{}:]+)(?::([A-Za-z0-9 ]+))?\}"


def _group_digits(value: Value) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _megabytes(value: Value) -> str:
    """MiB, which the library and its logs call MB. Small amounts keep their bytes, or they would read 0.00."""
    amount = float(value)
    return f"{amount / _MIB:,.2f} MiB" if amount >= _MIB // 100 else f"{int(amount):,} B"


_FORMATS: dict[str, Callable[[Value], str]] = {
    "": _group_digits,
    "bytes": lambda value: f"{_group_digits(value)} B",
    "mb": _megabytes,
    "plain": str,
    "percent": lambda value: "less than 0.1%" if 0 < float(value) < 0.05 else f"{float(value):.1f}%",
}


def _format(value: Value, form: str) -> str:
    kind, _, noun = form.partition(" ")
    if kind == "of":
        return f"{_group_digits(value)} {noun}{'' if value == 1 else 's'}"
    return _FORMATS[form](value)


def fill(text: str, names: Names) -> str | None:
    """The sentence, or None when a figure that it needs is not known."""
    literal, *slots = _pieces(text)
    out = [literal]
    for expression, form, literal in zip(slots[::3], slots[1::3], slots[2::3], strict=True):
        value = evaluate(expression, names)
        if value is None:
            return None
        out += [_format(value, form or ""), literal]
    return "".join(out)


def list_expressions(text: str) -> list[str]:
    """Return the expressions in the slots of a sentence; for the tests of the knowledge."""
    return _pieces(text)[1::3]


@cache
def _pieces(text: str) -> list[str]:
    """A text, then for every slot its expression, its format and the text behind it."""
    pieces = re.split(_SLOT, text)
    for form in pieces[2::3]:
        if form and form not in _FORMATS and not form.startswith("of "):
            raise ExpressionError(f"no format {form!r} in {text!r}; known: {', '.join(filter(None, _FORMATS))}")
    if unread := [literal for literal in pieces[::3] if "{" in literal or "}" in literal]:
        raise ExpressionError(f"a slot that cannot be read in {unread[0]!r}")
    return pieces


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
    """A person's words for a class; ``oom``: the figures decide which one, ``none``: another subject."""

    words: tuple[str, ...]
    """Regular expressions of which each has to be met."""
    failure_class: str
    memory: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Template:
    """A sentence of the library and its meaning."""

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


_Record = TypeVar("_Record")
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


def load_entries(kind: type[_Record]) -> tuple[_Record, ...]:
    """Return the entries of a kind in the order of the files: of two templates that match, the earlier wins."""
    return _load_entries()[kind]


def find_rules(kind: type[_Rule], failure_class: str) -> Sequence[_Rule]:
    """The rules of a kind for a class: asked for every failure of a sweep, and the same each time."""
    return _find_rules(failure_class)[kind]


def load_documents() -> list[dict[str, Any]]:
    """The content of the files, by name."""
    from importlib.resources import files  # here, because it is slow to import and most runs never fail

    names = sorted(file.name for file in files(__package__).iterdir() if file.name.endswith(".toml"))
    return [toml.load_packaged(__package__, name) for name in names]


@cache
def _load_entries() -> dict[type, tuple[Any, ...]]:
    read = load_documents()
    return {
        kind: tuple(kind(**_fields(entry)) for document in read for entry in document.get(table, ()))
        for table, kind in _TABLES.items()
    }


@cache
def _find_rules(failure_class: str) -> dict[type, list[Any]]:
    patterns = {failure_class, f"{failure_class.partition('/')[0]}/*"}
    return {
        kind: [rule for rule in rules if not patterns.isdisjoint(rule.classes)]
        for kind, rules in _load_entries().items()
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
def _load_classes() -> dict[str, FailureClass]:
    return {known.name: known for known in load_entries(FailureClass)}


def find_failure_class(name: str) -> FailureClass:
    return _load_classes()[name]


@cache
def find_template(template_id: str) -> Template:
    """The template of a failure; an id from elsewhere (``X1``, an assert of unknown wording) is a family of its own."""
    known = (template for template in load_entries(Template) if template.id == template_id)
    return next(known, Template(template_id, "", "none"))


def find_status(text: str) -> str:
    """Return the status that the words of a text without a class decide; empty when they do not."""
    return next((wording.status for wording in load_entries(Wording) if wording.status and wording.is_in(text)), "")


def find_title(failure_class: str, message: str) -> str:
    """A heading for results that say the same; empty where the message is its own."""
    known = _load_classes().get(failure_class)
    if known is not None and known.title:
        return known.title
    return next((wording.title for wording in load_entries(Wording) if wording.is_in(message)), "")


@cache
def load_facts(name: str) -> dict[str, Any]:
    """Load a file of ``failures/facts``: builds and their sizes, dimensions of models, operations, patterns of logs."""
    return toml.load_packaged("ttmem.failures", f"facts/{name}.toml")


@cache
def load_pattern(table: str, name: str) -> re.Pattern[str]:
    """Compile a regular expression of ``facts/patterns.toml``."""
    return re.compile(load_facts("patterns")[table][name])
