# SPDX-License-Identifier: Apache-2.0
"""A model over a range of batches, sizes or contexts: ``batch=1..64,size=224|640``."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from ttmem.base.errors import BadInputError
from ttmem.prediction.largest import QUANTITIES
from ttmem.prediction.request import Request

_MOST_POINTS = 1000
_HINT = "batch=1..64 (doubled each time), size=224|640; known: " + ", ".join(QUANTITIES)


@dataclass(frozen=True, slots=True)
class Range:
    """The values of one quantity."""

    quantity: str
    values: tuple[int, ...]


def parse(text: str) -> tuple[Range, ...]:
    """Every range of a sweep; ``a..b`` is doubled from a on and ends with b."""
    ranges = []
    for word in text.split(","):
        name, _, told = word.strip().partition("=")
        if name not in QUANTITIES or not re.fullmatch(r"\d+(\.\.\d+|(\|\d+)*)", told):
            raise BadInputError(f"'{word.strip()}' is no range", where="--sweep", hint=_HINT)
        first, dots, last = told.partition("..")
        values = _doubled(int(first), int(last)) if dots else tuple(map(int, told.split("|")))
        if not values or min(values) < 1:
            raise BadInputError(f"'{word.strip()}' has no value to try", where="--sweep", hint=_HINT)
        ranges.append(Range(name, tuple(dict.fromkeys(values))))
    names = [one.quantity for one in ranges]
    if len(set(names)) < len(names):
        raise BadInputError("a quantity is there twice", where="--sweep", hint=_HINT)
    return tuple(ranges)


def _doubled(first: int, last: int) -> tuple[int, ...]:
    values = []
    while 0 < first < last:
        values.append(first)
        first *= 2
    return (*values, last) if last >= 1 and (values or first == last) else ()


def points(request: Request, ranges: Sequence[Range]) -> Iterator[tuple[dict[str, int], Request]]:
    """Every combination, the first quantity slowest."""
    combined = list(product(*(one.values for one in ranges)))
    if len(combined) > _MOST_POINTS:
        raise BadInputError(
            f"{len(combined)} points are more than {_MOST_POINTS}", where="--sweep", hint="fewer values"
        )
    for values in combined:
        asked, place = request, {}
        for one, value in zip(ranges, values, strict=True):
            asked = QUANTITIES[one.quantity].on(asked, value)
            place[one.quantity] = value
        yield place, asked
