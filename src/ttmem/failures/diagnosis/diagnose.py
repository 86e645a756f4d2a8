# SPDX-License-Identifier: Apache-2.0
"""``diagnose``: from a failure to what happened in memory and what to change."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ttmem.failures.diagnosis.board_guess import LIKELY, UNKNOWN, BoardGuess
from ttmem.failures.diagnosis.failure_state import LiveTensor, Situation, build_situation
from ttmem.failures.diagnosis.memory_diagram import Picture, draw_picture
from ttmem.failures.diagnosis.savings import Saving, compute, fits_free_block, region_solves, room_solves
from ttmem.failures.diagnosis.tensor_guess import CERTAIN, TensorGuess
from ttmem.failures.failure import Failure
from ttmem.failures.knowledge.tables import (
    REGION,
    REQUEST,
    ArithmeticRow,
    FindingRule,
    Headline,
    Names,
    Quantity,
    RemedyRule,
    Template,
    evaluate,
    fill,
    find_failure_class,
    find_rules,
    is_true,
    load_entries,
)
from ttmem.failures.text.context import Context, KnownTensor
from ttmem.failures.text.find_in_stream import PARAPHRASED as PARAPHRASED
from ttmem.failures.text.find_in_stream import FailureSearch, find_in_text
from ttmem.failures.text.template import TemplatePiece, parse

_Sentence = TypeVar("_Sentence", bound=Headline)
_RANKS = {True: 0, None: 1, False: 2}
_LEAST_SHARE = 0.34
"""Of the template's words: below this the two have nothing to do with each other."""
_MOST_TEXT = 4000


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the arithmetic: its label, the number, and its derivation."""

    label: str
    value: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class FailureRemark:
    """A remark that is true of this failure, and the threads that show it."""

    id: str
    text: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change, its reason and its price tag."""

    id: str
    do: str
    why: str
    saves_bytes_per_bank: int | None
    """Of every bank; of every core where static buffers are concerned. None: the message does not allow to say."""
    saves_bytes: int | None
    """Over all banks of one chip; of one core where static buffers are concerned."""
    solves: bool | None
    """Whether this alone lets it fit, and nothing that repeats can fill the room again; None: not known."""
    caution: str = ""
    evidence: tuple[str, ...] = ()
    is_general: bool = False
    """Advice for the whole class, or for a kind of operations that the text does not name: shown last."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """A template, as it would be printed, and how much of it the text has."""

    template: str
    text: str
    failure_class: str
    share: float
    """Share of the template's words that the text contains, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The explanation of one failure and its remedies."""

    failure: Failure
    headline: str
    arithmetic: tuple[Figure, ...]
    findings: tuple[FailureRemark, ...]
    remedies: tuple[Remedy, ...]
    """Best first: what is enough by itself, what may be, what is not; of equals those for this operation; then general
    advice."""
    board: BoardGuess
    tensor: TensorGuess | None
    context: Context
    confidence: str
    """Of the class: ``certain`` by wording and arithmetic, ``likely`` by a rule of thumb, ``unknown``."""
    derived: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Figures that follow from those of the message."""
    picture: Picture | None = None
    nearest: Nearest | None = None
    """For text that no template explains: the one that comes nearest."""
    live: tuple[LiveTensor, ...] = ()

    @property
    def text(self) -> str:
        """Headline and findings in one paragraph."""
        return " ".join([self.headline, *(finding.text for finding in self.findings)])


def explain(text: str, *, board: str | None = None) -> list[Diagnosis]:
    """Explain each distinct failure of a text; a single diagnosis of class ``none`` when there is none."""
    return diagnose_all(find_in_text(text), board=board)


def diagnose_all(found: FailureSearch, *, board: str | None = None) -> list[Diagnosis]:
    """Explain what was found in a source."""
    if not found.failures:
        return [diagnose(Failure("none", None, found.head, ""), board=board)]
    return [
        diagnose(failure, board=board, context=context)
        for failure, context in zip(found.failures, found.contexts, strict=True)
    ]


def diagnose(
    failure: Failure,
    *,
    board: str | None = None,
    context: Context | None = None,
    live: Sequence[LiveTensor] = (),
    tensors: Sequence[KnownTensor] = (),
) -> Diagnosis:
    """Explain one failure.

    ``board`` is the user's word for where it happened (else it is inferred), ``context`` what the text around it names,
    ``live`` what a profile knows to have been allocated, ``tensors`` candidates for the one that did not fit.
    """
    situation = build_situation(failure, board=board, context=context, live=live, tensors=tensors)
    name = failure.failure_class
    return Diagnosis(
        failure=failure,
        headline=next((text for _, text in _sentences(Headline, situation)), find_failure_class(name).meaning),
        arithmetic=tuple(_arithmetic(situation)),
        findings=tuple(
            FailureRemark(rule.id, text, rule.evidence) for rule, text in _sentences(FindingRule, situation)
        ),
        remedies=tuple(_remedies(situation)),
        board=situation.board,
        tensor=situation.tensor,
        context=situation.context,
        confidence=_confidence(failure),
        derived=_derive(situation),
        picture=draw_picture(situation),
        nearest=_nearest_template(failure.message) if name == "none" or failure.template == PARAPHRASED else None,
        live=situation.live,
    )


def _confidence(failure: Failure) -> str:
    if failure.failure_class in ("none", "oom/unknown"):
        return UNKNOWN
    if failure.template == PARAPHRASED or (failure.failure_class == "host/memory" and "exit_code" in failure.numbers):
        return LIKELY
    by_likelihood = failure.failure_class == "oom/capacity" and "bank_bytes" in failure.numbers
    return LIKELY if by_likelihood and not failure.numbers.keys() & {"free", "allocated"} else CERTAIN


def _sentences(kind: type[_Sentence], situation: Situation) -> Iterator[tuple[_Sentence, str]]:
    """The sentences of a kind that hold and can be filled."""
    for rule in find_rules(kind, situation.failure.failure_class):
        if is_true(rule.when, situation.names) and (text := fill(rule.say, situation.names)):
            yield rule, text


def _derive(situation: Situation) -> dict[str, int]:
    names = [rule.name for rule in find_rules(Quantity, situation.failure.failure_class)]
    values = {name: situation.number(name) for name in names if name not in situation.failure.numbers}
    return {name: value for name, value in values.items() if value is not None}


def _arithmetic(situation: Situation) -> Iterator[Figure]:
    for rule in find_rules(ArithmeticRow, situation.failure.failure_class):
        value = evaluate(rule.value, situation.names) if is_true(rule.when, situation.names) else None
        label = fill(rule.label, situation.names)
        if isinstance(value, int) and label is not None:
            yield Figure(label, value, _first_filled(rule.notes, situation.names) or "")


def _remedies(situation: Situation) -> list[Remedy]:
    family = situation.names.get("family")
    is_other_call = family is not None or ("call" in situation.names and "has_no_result" not in situation.names)
    found = [
        ((not rule.is_first, remedy.is_general, _RANKS[remedy.solves], family not in rule.families), remedy)
        for rule in find_rules(RemedyRule, situation.failure.failure_class)
        if (not rule.families or family in rule.families or not is_other_call)
        if is_true(rule.when, situation.names) and (remedy := _remedy(rule, situation))
    ]
    # Stable, so that what the threads found best stays first among equals.
    return [remedy for _, remedy in sorted(found, key=lambda ranked: ranked[0])]


def _remedy(rule: RemedyRule, situation: Situation) -> Remedy | None:
    saving = _saving(rule, situation)
    names = {**situation.names, **(saving.names if saving else {})}
    do, why = _first_filled(rule.do, names), _first_filled(rule.why, names)
    if do is None or why is None:
        return None
    per_bank = saving.bytes_per_bank if saving else None
    solves = saving.solves if saving else None
    if rule.solves:
        verdict = evaluate(rule.solves, names)
        solves = verdict if isinstance(verdict, bool) else solves
    if solves and not rule.ends_growth and "repeats" in names:
        solves = None  # the next turn asks for as much again
    banks = 1 if rule.effect == REGION else _banks_of_pool(situation)
    whole = per_bank * banks if per_bank is not None and banks else None
    is_of_others = bool(rule.families) and situation.names.get("family") not in rule.families
    is_worthwhile = per_bank is not None and solves is not False
    is_general = not rule.is_first and (is_of_others or (rule.is_general and not is_worthwhile))
    return Remedy(
        rule.id,
        do,
        why,
        per_bank,
        whole,
        solves,
        fill(rule.caution, names) or "",
        rule.evidence,
        is_general,
    )


def _saving(rule: RemedyRule, situation: Situation) -> Saving | None:
    if rule.computes:
        return compute(rule.computes, situation)
    amount = evaluate(rule.saves_per_bank, situation.names) if rule.saves_per_bank else None
    if not isinstance(amount, int) or amount <= 0:
        return None
    if rule.effect == REQUEST:
        need = situation.number("bytes_per_bank")
        return Saving(amount, None if need is None else fits_free_block(situation, max(0, need - amount)))
    solves = region_solves if rule.effect == REGION else room_solves
    return Saving(amount, solves(situation, amount))


def _banks_of_pool(situation: Situation) -> int | None:
    """Return the banks in which a saving counts: those of the pool, which move in lock step, else the message's."""
    pool = situation.number("dram_banks" if situation.failure.memory in ("DRAM", "TRACE") else "grid_cores")
    return max(pool or 0, situation.number("banks") or 0) or None


def _first_filled(texts: Iterable[str], names: Names) -> str | None:
    return next((filled for text in texts if (filled := fill(text, names)) is not None), None)


def _nearest_template(text: str) -> Nearest | None:
    """The template that shares most words with a text; None when none shares enough to be worth showing."""
    words = _words(text[:_MOST_TEXT])
    best: Nearest | None = None
    for template in load_entries(Template):
        sentence = _readable(parse(template.text))
        wanted = _words(sentence)
        share = len(wanted & words) / len(wanted) if wanted else 0.0
        # Short templates are met by chance: a word of two says nothing.
        if len(wanted & words) >= 2 and share >= _LEAST_SHARE and (best is None or share > best.share):
            best = Nearest(template.id, sentence, template.failure_class, round(share, 2))
    return best


def _readable(parts: tuple[TemplatePiece, ...]) -> str:
    out = []
    for part in parts:
        if part.slot is None:
            out.append(part.text or _readable(part.optional))
        else:
            out.append(part.slot.choices[0] if part.slot.choices else "...")
    return "".join(out)


def _words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Za-z][A-Za-z_0-9]{3,}", text)}
