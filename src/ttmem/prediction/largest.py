# SPDX-License-Identifier: Apache-2.0
"""The largest batch, sequence, context, number of users or image size that fits, by asking the engine again.

More is taken to need no less memory. A run that fits tells how full the fullest bank was, so the next value is aimed at
by a straight line through the last two, and halved where the line misleads: a handful of runs instead of twenty. The
answer itself is never extrapolated: the value fitted, and the next step did not. Images come in buffers so large that
a batch can fail in pieces of free memory where a larger one lies better: a line might land on that one, so batches and
sizes are doubled and halved from the smallest, which is what anybody would try.

A run of the real library costs seconds to minutes (it works out tables of large reshapes on the host, anew for every
batch), so it is asked where the twin found the limit: the same value and the next one are two runs. Where it differs,
the search goes on from there.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ttmem.analysis.peaks import peaks
from ttmem.base.errors import BadInputError
from ttmem.engines.engine import MOCK, TWIN
from ttmem.prediction.request import Prediction, Request
from ttmem.prediction.run_stream import engine_name

ASSUMED = "memory grows with the value; the largest that fits and the next step were both checked"
_MOST_RUNS = 64
_MOST_GROWTH = 16
"""A line through two small values says little of large ones."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What can be searched: the field of a request, and the steps it grows by."""

    name: str
    field: str
    step: int
    most: int
    start: int
    """Where the search begins when the request says nothing: far enough for a slope to be seen."""
    by_halves: bool = False
    """Whether no line is aimed along."""

    def on(self, request: Request, value: int) -> Request:
        """The request with this much of it."""
        told: Any = (value, value) if self.field == "size" else value
        return replace(request, **{self.field: told})

    def of(self, request: Request) -> int:
        """How much the request has."""
        told: tuple[int, int] | int | None = getattr(request, self.field)
        return max(told) if isinstance(told, tuple) else told or self.start


QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        Quantity("batch", "batch", 1, 1 << 16, 1, by_halves=True),
        Quantity("seq", "sequence", 32, 1 << 22, 512),
        Quantity("context", "context", 32, 1 << 24, 4096),
        Quantity("users", "users", 1, 1 << 16, 1),
        Quantity("size", "size", 32, 1 << 14, 224, by_halves=True),
    )
}


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one value."""

    value: int
    fits: bool
    peak_bytes_per_bank: int
    """Of DRAM; of a run that does not fit, as far as it came."""
    bytes_per_bank: int


@dataclass(frozen=True, slots=True)
class Found:
    """The largest value that fits."""

    value: int
    """0: not even the smallest does."""
    tried: tuple[Tried, ...]
    is_limit: bool
    """False: the search ended at its own upper end, and more may fit."""


@dataclass(frozen=True, slots=True)
class Largest(Found):
    """The same, of a request."""

    quantity: str
    prediction: Prediction
    """Of the largest that fits; of the smallest where none does."""


def search(
    request: Request, quantity: str, predict: Callable[[Request], Prediction], *, most: int | None = None
) -> Largest:
    """The largest value, in whole steps, at which the prediction fits; ``most`` ends the search early."""
    try:
        what = QUANTITIES[quantity]
    except KeyError:
        raise BadInputError(f"cannot search '{quantity}'", hint=f"known: {', '.join(QUANTITIES)}") from None
    predictions: dict[int, Prediction] = {}
    refusals: dict[int, BadInputError] = {}

    def ask(value: int) -> Tried:
        try:
            predictions[value] = prediction = predict(what.on(request, value))
        except BadInputError as error:  # more than the model has places for
            refusals[value] = error
            if value == what.step:
                raise
            return Tried(value, False, 0, 0)
        dram = peaks(prediction.profile).get("DRAM")
        held, size = (dram.peak_bytes_per_bank, dram.bytes_per_bank) if dram else (0, 0)
        return Tried(value, prediction.fits, held, size)

    begin, is_expected = what.step if what.by_halves else what.of(request), engine_name(request) == MOCK
    if is_expected:
        begin = search(replace(request, engine=TWIN), quantity, predict, most=most).value
    found = largest(ask, what, begin, most, is_expected=is_expected)
    if not predictions:
        raise next(iter(refusals.values()))
    prediction = predictions[found.value or min(predictions)]
    ended = f"the search ended at {quantity} {found.value:,}: more may fit"
    told = [ASSUMED if found.is_limit else ended]
    if refusals and min(refusals) <= found.value + what.step:
        told = [f"the model itself ends the search, not memory: {refusals[min(refusals)].message}"]
    prediction = replace(prediction, assumed=(*prediction.assumed, *told))
    return Largest(found.value, found.tried, found.is_limit, quantity, prediction)


def largest(
    ask: Callable[[int], Tried], what: Quantity, begin: int, most: int | None = None, *, is_expected: bool = False
) -> Found:
    """The search itself, over whatever answers; ``is_expected``: the first value is thought to be the limit."""
    end = min(most or what.most, what.most)
    return _Search(ask, what.step, end, by_halves=what.by_halves).run(begin, is_expected=is_expected)


class _Search:
    """Counts in steps; ``low`` fits and ``high`` does not."""

    def __init__(self, ask: Callable[[int], Tried], step: int, most: int, *, by_halves: bool) -> None:
        self._ask_value, self._step, self._by_halves = ask, step, by_halves
        self._tried: dict[int, Tried] = {}
        self._end = max(most // step, 1)
        self._aims = self._missed = False
        """Whether the line chose the last value, and whether it led beyond the limit or nowhere."""
        self.low, self.high = 0, self._end + 1

    def run(self, begin: int, *, is_expected: bool) -> Found:
        first = min(max(begin // self._step, 1), self._end)
        self._ask(first)
        neighbour = first + 1 if self.low else first - 1
        if is_expected and 0 < neighbour <= self._end:
            self._ask(neighbour)
        while self.high - self.low > 1 and len(self._tried) < _MOST_RUNS:
            self._ask(self._next())
        tried = tuple(sorted(self._tried.values(), key=lambda one: one.value))
        return Found(self.low * self._step, tried, is_limit=self.high <= self._end)

    def _ask(self, steps: int) -> None:
        self._tried[steps] = told = self._ask_value(steps * self._step)
        self._missed = self._aims and (not told.fits or steps == self.low + 1)
        if told.fits:
            self.low = steps
        else:
            self.high = steps

    def _next(self) -> int:
        """Where the line through the two largest that fit meets the end of the bank; after a miss the middle."""
        fitting = sorted((steps, told) for steps, told in self._tried.items() if told.fits)
        if not fitting:
            return max(self.high // 2, 1)
        is_open = self.high > self._end
        farther = (2 if self._by_halves else 4) * self.low
        middle = self._inside(farther if is_open else (self.low + self.high) // 2)
        self._aims = len(fitting) > 1 and not self._missed and not self._by_halves
        if not self._aims:
            return middle
        (before, first), (last, second) = fitting[-2:]
        grown = second.peak_bytes_per_bank - first.peak_bytes_per_bank
        room = second.bytes_per_bank - second.peak_bytes_per_bank
        if grown <= 0:
            return middle
        aimed = last + room * (last - before) // grown
        return self._inside(min(aimed, _MOST_GROWTH * last) if is_open else aimed)

    def _inside(self, steps: int) -> int:
        return min(max(steps, self.low + 1), self.high - 1)
