# SPDX-License-Identifier: Apache-2.0
"""Language of the templates in ``failures/knowledge``: sentences of the library with slots for the parts that vary.

A slot is ``{name:kind}``; a slot without a name (``{:number}``) matches and is not kept. The kinds:

- ``number``: a whole number, also with thousands separators; the default, so ``{banks}`` is ``{banks:number}``;
  ``{kib*1024}`` multiplies it;
- ``hex``: a whole number, decimal or hexadecimal (``0x1f``): ``{address:hex}``;
- ``word``: an identifier or path without blanks: ``{operation:word}``;
- ``text``: any text up to the plain text after the slot, at most 500 characters: ``{reason:text}``;
- ``range``: a range or set of cores in brackets, ``[(x=0,y=0) - (x=7,y=7)]``: ``{core_range:range}``;
- ``core``: a core, ``(x=0,y=0)`` or ``0-0``: ``{core:core}``;
- ``version``: numbers with dots, ``18.3.0``: ``{minimum:version}``.

Two more forms: ``{memory=DRAM|L1}`` is one of these words (``{=at|near}``: not kept), and ``[[...]]`` is a part that
some prints lack; at the very start it is a lead, which may precede the sentence.

Messages reach us wrapped, cut and retyped, so a template is read generously: any figure may be missing, carry
thousands separators, or still be the ``{}`` of a build that printed its format string and the arguments below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

_NUMBER = r"\d{1,3}(?:[,_']\d{3}){1,6}(?!\d)|\d{1,20}(?!\d)"
SLOT_KINDS = {
    "number": _NUMBER,
    "hex": r"0x[0-9a-fA-F]{1,16}|" + _NUMBER,
    "word": r"[A-Za-z_][\w.:/+-]{0,199}",
    "text": r".{1,500}?",
    "range": r"\[[^\[\]]{0,80}\]|\{[^{}]{1,400}\}",
    "core": r"\([^()]{1,24}\)|\d+-\d+",
    "version": r"\d+(?:\.\d+)+",
}
_PLACEHOLDER = r"\{\}|<[a-z_ ]{1,20}>|\.\.\.|\u2026"
_NO_FIGURE = 1 << 60
"""No memory and no address is so large: what is printed so was mixed up, and counts as not printed."""
_LEAD_WIDTH = 160
"""How far before a sentence its lead is looked for; keeps the search linear in the text."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place where prints of one sentence differ."""

    name: str
    kind: str
    factor: int = 1
    choices: tuple[str, ...] = ()

    @property
    def is_number(self) -> bool:
        """True for a figure (which may therefore be missing)."""
        return self.kind in ("number", "hex")

    def value_regex(self) -> str:
        """Return the pattern of a value, as a named group where it is kept."""
        if self.choices:
            values = "|".join(re.escape(choice) for choice in sorted(self.choices, key=len, reverse=True))
            values = f"(?:{values})(?!\\w)"
        else:
            values = SLOT_KINDS[self.kind]
        return f"(?P<{self.name}>{values})" if self.name else f"(?:{values})"


@dataclass(frozen=True, slots=True)
class TemplatePiece:
    """A piece of a template: text, a slot, or an optional run of pieces."""

    text: str = ""
    slot: Slot | None = None
    optional: tuple[TemplatePiece, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """A match of a template, and the values of its slots."""

    start: int
    end: int
    numbers: dict[str, int]
    texts: dict[str, str]


_TOKENS = r"\[\[|\]\]|\{(?P<name>[a-z_0-9]*)(?:\*(?P<factor>\d+)|:(?P<kind>[a-z]+)|=(?P<choices>[^{}]+))?\}"


@cache
def parse(text: str) -> tuple[TemplatePiece, ...]:
    """The pieces of a template; raises ValueError when it is not well formed (a fault of ours, found by tests)."""
    stack: list[list[TemplatePiece]] = [[]]
    position = 0
    for token in re.finditer(_TOKENS, text):
        if token.start() > position:
            stack[-1].append(TemplatePiece(text=text[position : token.start()]))
        position = token.end()
        if token[0] == "[[":
            stack.append([])
        elif token[0] == "]]":
            if len(stack) == 1:
                raise ValueError(f"']]' without '[[' in template {text!r}")
            optional = tuple(stack.pop())
            stack[-1].append(TemplatePiece(optional=optional))
        else:
            choices = tuple(token["choices"].split("|")) if token["choices"] else ()
            kind = "choice" if choices else token["kind"] or "number"
            if kind != "choice" and kind not in SLOT_KINDS:
                raise ValueError(f"unknown kind {kind!r} in template {text!r}")
            stack[-1].append(TemplatePiece(slot=Slot(token["name"], kind, int(token["factor"] or 1), choices)))
    if len(stack) > 1:
        raise ValueError(f"'[[' without ']]' in template {text!r}")
    if position < len(text):
        stack[-1].append(TemplatePiece(text=text[position:]))
    return tuple(stack[0])


def split_lead(parts: tuple[TemplatePiece, ...]) -> tuple[tuple[TemplatePiece, ...], tuple[TemplatePiece, ...]]:
    """The optional lead at the very start, and the sentence, which must begin with plain text."""
    lead: tuple[TemplatePiece, ...] = ()
    if parts and parts[0].optional:
        lead, parts = parts[0].optional, parts[1:]
    if not parts or len(parts[0].text.rstrip()) < 4:
        raise ValueError("a template has to begin with plain text that can be searched for")
    return lead, parts


@cache
def find_anchor(text: str) -> str:
    """The plain text that every match of a template begins with: where it is absent, nothing needs to be compiled."""
    return split_lead(parse(text))[1][0].text.rstrip()


def list_slots(parts: tuple[TemplatePiece, ...]) -> Iterator[Slot]:
    """Yield the slots in the order of the sentence."""
    for part in parts:
        if part.slot is not None:
            yield part.slot
        yield from list_slots(part.optional)


def _regex(parts: tuple[TemplatePiece, ...]) -> str:
    out: list[str] = []
    for before, part, after in zip((TemplatePiece(), *parts), parts, (*parts[1:], TemplatePiece()), strict=False):
        if part.slot is not None and part.slot.kind == "text":
            if not after.text:
                raise ValueError("a text slot has to be followed by plain text that ends it")
            # The first end counts. Inside a lookahead it stays the first one: no second try, so time stays linear.
            out.append(f"(?={part.slot.value_regex()}{re.escape(after.text.rstrip())})(?P={part.slot.name})")
        elif part.optional:
            out.append(f"(?:{_regex(part.optional)})?")
        elif part.slot is None:
            text = part.text
            if after.slot is not None and after.slot.is_number:
                text = text.removesuffix(" ")  # the blank goes with the figure: see below
            unit = re.match(r" ?B\b", text) if before.slot is not None else None
            out.append(" ?B" + re.escape(text[unit.end() :]) if unit else re.escape(text))
        elif part.slot.is_number:
            blank = " " if before.text.endswith(" ") else ""
            out.append(f"(?:{blank}(?:{part.slot.value_regex()}|{_PLACEHOLDER}))?")
        else:
            out.append(f"(?:{part.slot.value_regex()}|{_PLACEHOLDER})")
    return "".join(out)


@cache
def _compile(parts: tuple[TemplatePiece, ...], end: str = "") -> tuple[re.Pattern[str], tuple[Slot, ...]]:
    return re.compile(_regex(parts) + end), tuple(slot for slot in list_slots(parts) if slot.name)


@cache
def _arguments(wanted: tuple[Slot, ...]) -> re.Pattern[str]:
    return re.compile(r"\.?" + "".join(rf" (?:BufferType::)?{slot.value_regex()}" for slot in wanted) + r"(?= |\Z)")


def find_matches(text: str, flat: str) -> Iterator[Match]:
    """Yield the matches of a template in a cleaned text, without overlaps.

    Callers look for the anchor first: it is a plain search, and most sentences are never compiled.
    """
    before, parts = split_lead(parse(text))
    (lead, lead_slots), (sentence, kept) = _compile(before, r"\Z"), _compile(parts)
    for found in sentence.finditer(flat):
        values = {slot: found[slot.name] for slot in kept}
        start, end = found.span()
        for slot in kept[:-1]:
            # A figure at the very end of a text whose sentence continues was cut, perhaps in the middle of the figure.
            if slot.is_number and found.end(slot.name) == len(flat):
                values[slot] = None
        unformatted = tuple(slot for slot, value in values.items() if value is None)
        is_format_string = unformatted and found[0].count("{}") == len(unformatted)
        if is_format_string and (arguments := _arguments(unformatted).match(flat, end)):
            values.update((slot, arguments[slot.name]) for slot in unformatted)
            end = arguments.end()
        if led := lead.search(flat, max(0, start - _LEAD_WIDTH), start):  # without a lead: nothing, at the start itself
            start = led.start()
            values.update((slot, led[slot.name]) for slot in lead_slots)
        yield Match(start, end, *_convert_values(values))


def _convert_values(values: dict[Slot, str | None]) -> tuple[dict[str, int], dict[str, str]]:
    numbers: dict[str, int] = {}
    texts: dict[str, str] = {}
    for slot, value in values.items():
        if value is None or value == "{}":
            continue
        if slot.is_number or (slot.choices and value.isdigit()):
            digits = re.sub(r"[,_']", "", value)
            number = int(digits, 16 if digits.startswith("0x") else 10) * slot.factor
            if number < _NO_FIGURE:
                numbers[slot.name] = number
        else:
            texts[slot.name] = value.strip()
    return numbers, texts
