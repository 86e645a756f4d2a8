# SPDX-License-Identifier: Apache-2.0
"""The language of the knowledge: expressions (``bytes_per_bank - largest_free``) and sentences with slots for them.

Names are what is known of a failure. A message may lack any of its figures, so an expression has a value, or none
because a name in it is unknown; a sentence that needs an unknown figure cannot be filled.

A slot holds an expression and how to write it: ``{free}`` 1,024, ``{free:bytes}`` 1,024 B, ``{free:mb}`` 0.001 MiB,
``{free:plain}`` 1024 (to be typed), ``{percent(free, bank_bytes):percent}`` 12.5%, ``{tensors:of tensor}`` 2 tensors.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache

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


def holds(condition: str, names: Names) -> bool:
    """Whether a condition is known to be true; no condition always holds."""
    return not condition or evaluate(condition, names) is True


_MIB = 1 << 20
_SLOT = r"\{([^{}:]+)(?::([A-Za-z0-9 ]+))?\}"


def _grouped(value: Value) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _megabytes(value: Value) -> str:
    """MiB, which the library and its logs call MB. Small amounts keep their bytes, or they would read 0.00."""
    amount = float(value)
    return f"{amount / _MIB:,.2f} MiB" if amount >= _MIB // 100 else f"{int(amount):,} B"


_FORMATS: dict[str, Callable[[Value], str]] = {
    "": _grouped,
    "bytes": lambda value: f"{_grouped(value)} B",
    "mb": _megabytes,
    "plain": str,
    "percent": lambda value: "less than 0.1%" if 0 < float(value) < 0.05 else f"{float(value):.1f}%",
}


def _formatted(value: Value, form: str) -> str:
    kind, _, noun = form.partition(" ")
    if kind == "of":
        return f"{_grouped(value)} {noun}{'' if value == 1 else 's'}"
    return _FORMATS[form](value)


def fill(text: str, names: Names) -> str | None:
    """The sentence, or None when a figure that it needs is not known."""
    literal, *slots = _pieces(text)
    out = [literal]
    for expression, form, literal in zip(slots[::3], slots[1::3], slots[2::3], strict=True):
        value = evaluate(expression, names)
        if value is None:
            return None
        out += [_formatted(value, form or ""), literal]
    return "".join(out)


def expressions_in(text: str) -> list[str]:
    """What the slots of a sentence look at; for the tests of the knowledge."""
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
