# SPDX-License-Identifier: Apache-2.0
"""Find the largest batch, sequence, context, number of users or image size that fits; expand sweeps over them.

A larger value is assumed to need no less memory. A run that fits reports the fullest bank, so the next value comes from
a straight line through the last two, or from bisection if the line misses: a handful of runs instead of twenty. The
answer is never extrapolated: the value fitted, and the next step did not. Images need buffers so large that
fragmentation can fail a batch where a larger one fits. A line might land on the larger one, so batches and
sizes are doubled from the smallest and bisected.

A run of the real library takes seconds to minutes (it computes tables of large reshapes on the host for every
batch), so it starts at the limit that the twin found: the same value and the next one are two runs. If it differs,
the search continues from there.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from ttmem.analysis.peaks import peaks
from ttmem.base.bisection import find_first_failure
from ttmem.base.errors import BadInputError
from ttmem.engines.engine import MOCK, TWIN
from ttmem.engines.twin import TwinEngine
from ttmem.failures.outcome import PASS, UNSUPPORTED
from ttmem.prediction.language.configuration import read_config
from ttmem.prediction.language.stream import apply_recipe, build_pass
from ttmem.prediction.request import Capacity, CapacityPoint, Prediction, Request
from ttmem.prediction.run_stream import choose_engine, engine_settings

ASSUMED = "memory grows with the value; the largest that fits and the next step were both checked"
_MOST_RUNS = 64
_MOST_GROWTH = 16
"""Largest factor of extrapolation: a line through two small values says little about large ones."""


@dataclass(frozen=True, slots=True)
class RequestQuantity:
    """A field of a request that can be searched, and its step."""

    name: str
    field: str
    step: int
    most: int
    start: int
    """Start of the search without a value in the request: far enough to see a slope."""
    only_doubles: bool = False
    """The search doubles and halves instead of aiming along a line."""

    def apply(self, request: Request, value: int) -> Request:
        changed: Any = (value, value) if self.field == "size" else value
        return replace(request, **{self.field: changed})

    def read(self, request: Request) -> int:
        """Return the request's value, or where the search starts."""
        value: tuple[int, int] | int | None = getattr(request, self.field)
        return max(value) if isinstance(value, tuple) else value or self.start


QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        RequestQuantity("batch", "batch", 1, 1 << 16, 1, only_doubles=True),
        RequestQuantity("seq", "sequence", 32, 1 << 22, 512),
        RequestQuantity("context", "context", 32, 1 << 24, 4096),
        RequestQuantity("users", "users", 1, 1 << 16, 1),
        RequestQuantity("size", "size", 32, 1 << 14, 224, only_doubles=True),
    )
}


@dataclass(frozen=True, slots=True)
class TriedValue:
    """The result for one value."""

    value: int
    fits: bool
    peak_bytes_per_bank: int
    """Peak in DRAM; for a run that does not fit, until the failure."""
    bytes_per_bank: int


@dataclass(frozen=True, slots=True)
class LargestValue:
    """The largest value that fits."""

    value: int
    """0: the smallest does not fit."""
    tried: tuple[TriedValue, ...]
    is_limit: bool
    """False: the search reached its upper end, and more may fit."""


@dataclass(frozen=True, slots=True)
class LargestPrediction(LargestValue):
    """The largest value of a request that fits, with its prediction."""

    quantity: str
    prediction: Prediction
    """Prediction for the largest value that fits; for the smallest if none does."""


def search_largest(
    request: Request, quantity: str, predict: Callable[[Request], Prediction], *, most: int | None = None
) -> LargestPrediction:
    """Find the largest value, in whole steps, at which the prediction fits; ``most`` ends the search early."""
    try:
        what = QUANTITIES[quantity]
    except KeyError:
        raise BadInputError(f"cannot search '{quantity}'", hint=f"known: {', '.join(QUANTITIES)}") from None
    predictions: dict[int, Prediction] = {}
    refusals: dict[int, BadInputError] = {}

    def ask(value: int) -> TriedValue:
        try:
            predictions[value] = prediction = predict(what.apply(request, value))
        except BadInputError as error:  # more than the model has positions for
            refusals[value] = error
            if value == what.step:
                raise
            return TriedValue(value, False, 0, 0)
        dram = peaks(prediction.profile).get("DRAM")
        held, size = (dram.peak_bytes_per_bank, dram.bytes_per_bank) if dram else (0, 0)
        return TriedValue(value, prediction.fits, held, size)

    begin, is_expected = what.step if what.only_doubles else what.read(request), choose_engine(request) == MOCK
    if is_expected:
        begin = search_largest(replace(request, engine=TWIN), quantity, predict, most=most).value
    found = find_largest(ask, what, begin, most, is_expected=is_expected)
    if not predictions:
        raise next(iter(refusals.values()))
    prediction = predictions[found.value or min(predictions)]
    assumed = ASSUMED if found.is_limit else f"the search ended at {quantity} {found.value:,}: more may fit"
    if refusals and min(refusals) <= found.value + what.step:
        assumed = f"the model itself ends the search, not memory: {refusals[min(refusals)].message}"
    prediction = replace(prediction, assumed=(*prediction.assumed, assumed))
    return LargestPrediction(found.value, found.tried, found.is_limit, quantity, prediction)


def find_largest(
    ask: Callable[[int], TriedValue],
    what: RequestQuantity,
    begin: int,
    most: int | None = None,
    *,
    is_expected: bool = False,
) -> LargestValue:
    """Run the search on any function that answers; ``is_expected``: the first value is probably the limit."""
    end = min(most or what.most, what.most)
    return _LargestSearch(ask, what.step, end, only_doubles=what.only_doubles).run(begin, is_expected=is_expected)


class _LargestSearch:
    """Counts in steps; ``low`` fits and ``high`` does not."""

    def __init__(self, ask: Callable[[int], TriedValue], step: int, most: int, *, only_doubles: bool) -> None:
        self._ask_value, self._step, self._only_doubles = ask, step, only_doubles
        self._tried: dict[int, TriedValue] = {}
        self._end = max(most // step, 1)
        self.low, self.high = 0, self._end + 1

    def run(self, begin: int, *, is_expected: bool) -> LargestValue:
        first = min(max(begin // self._step, 1), self._end)
        self._ask(first)
        neighbour = first + 1 if self.low else first - 1
        if is_expected and 0 < neighbour <= self._end:
            self._ask(neighbour)
        if self._only_doubles:
            while self.high > self._end > self.low:
                self._ask(min(2 * self.low, self._end))
            find_first_failure(self.low, self.high, self._ask)
        else:
            self._search_along_line()
        tried = tuple(sorted(self._tried.values(), key=lambda one: one.value))
        return LargestValue(self.low * self._step, tried, is_limit=self.high <= self._end)

    def _ask(self, steps: int) -> bool:
        self._tried[steps] = answer = self._ask_value(steps * self._step)
        if answer.fits:
            self.low = steps
        else:
            self.high = steps
        return answer.fits

    def _search_along_line(self) -> None:
        """Aim where the line through the two largest that fit meets the end of the bank; after a miss at the middle."""
        missed = False
        while self.high - self.low > 1 and len(self._tried) < _MOST_RUNS:
            fitting = sorted((steps, answer) for steps, answer in self._tried.items() if answer.fits)
            is_open, before = self.high > self._end, self.low
            steps = 4 * self.low if is_open else (self.low + self.high) // 2
            aims = len(fitting) > 1 and not missed
            if aims:
                (last_but_one, first), (last, second) = fitting[-2:]
                grown = second.peak_bytes_per_bank - first.peak_bytes_per_bank
                room = second.bytes_per_bank - second.peak_bytes_per_bank
                if grown > 0:
                    aimed = last + room * (last - last_but_one) // grown
                    steps = min(aimed, _MOST_GROWTH * last) if is_open else aimed
            steps = min(max(steps, self.low + 1), self.high - 1)
            fits = self._ask(steps)
            missed = aims and (not fits or steps == before + 1)


_MOST_POINTS = 1000
_HINT = "batch=1..64 (doubled each time), size=224|640; known: " + ", ".join(QUANTITIES)


@dataclass(frozen=True, slots=True)
class QuantityRange:
    """The values of one quantity."""

    quantity: str
    values: tuple[int, ...]


def parse_ranges(text: str) -> tuple[QuantityRange, ...]:
    """Parse the ranges of a sweep; ``a..b`` doubles from a and ends with b."""
    ranges = []
    for word in text.split(","):
        name, _, told = word.strip().partition("=")
        if name not in QUANTITIES or not re.fullmatch(r"\d+(\.\.\d+|(\|\d+)*)", told):
            raise BadInputError(f"'{word.strip()}' is no range", where="--sweep", hint=_HINT)
        first, dots, last = told.partition("..")
        values = _double_up_to(int(first), int(last)) if dots else tuple(map(int, told.split("|")))
        if not values or min(values) < 1:
            raise BadInputError(f"'{word.strip()}' has no value to try", where="--sweep", hint=_HINT)
        ranges.append(QuantityRange(name, tuple(dict.fromkeys(values))))
    names = [one.quantity for one in ranges]
    if len(set(names)) < len(names):
        raise BadInputError("a quantity is there twice", where="--sweep", hint=_HINT)
    return tuple(ranges)


def _double_up_to(first: int, last: int) -> tuple[int, ...]:
    values = []
    while 0 < first < last:
        values.append(first)
        first *= 2
    return (*values, last) if last >= 1 and (values or first == last) else ()


def expand_ranges(request: Request, ranges: Sequence[QuantityRange]) -> Iterator[tuple[dict[str, int], Request]]:
    """Yield all combinations; the first quantity changes slowest."""
    combined = list(product(*(one.values for one in ranges)))
    if len(combined) > _MOST_POINTS:
        raise BadInputError(
            f"{len(combined)} points are more than {_MOST_POINTS}", where="--sweep", hint="fewer values"
        )
    for values in combined:
        asked, place = request, {}
        for one, value in zip(ranges, values, strict=True):
            asked = QUANTITIES[one.quantity].apply(asked, value)
            place[one.quantity] = value
        yield place, asked


_USERS = (1, 2, 4, 8, 16, 32)
_LAYERS = 2


def find_capacity(request: Request) -> Capacity:
    """Find how many users, and how long a context, fit on the twin, per chip as the request splits the model.

    All layers make and free the same buffers, so the calls of two show the peak; cache and weights are those of all.
    """
    config = read_config(request)
    asked = apply_recipe(request, config)
    # A request beyond the model's own positions is not limited by them.
    positions = asked.dimensions.positions if asked.context <= asked.dimensions.positions else None
    with TwinEngine(engine_settings(request)) as engine:

        def find(quantity: str, fixed: Request, begin: int, most: int | None = None) -> LargestValue:
            what = QUANTITIES[quantity]
            return find_largest(
                lambda value: _try_on_twin(engine, what.apply(fixed, value), config, value), what, begin, most
            )

        users = find("users", replace(request, context=asked.context), asked.users)
        found: dict[int, LargestValue] = {}
        begin = asked.context * asked.users
        for count in sorted({*_USERS, asked.users}):
            fixed = replace(request, users=count, sequence=None)
            found[count] = find("context", fixed, begin // count, positions)
            begin = max(found[count].value, 1) * count  # the cache is nearly all that grows
    points = tuple(CapacityPoint(count, one.value, one.is_limit) for count, one in found.items())
    return Capacity(asked.users, asked.context, users.value, found[asked.users].value, points)


def _try_on_twin(engine: TwinEngine, request: Request, config: Mapping[str, Any], value: int) -> TriedValue:
    layout = apply_recipe(request, config)
    steps = [resident.step for resident in layout.residents()]
    for call in build_pass(layout, _LAYERS)[0]:
        steps += [*call.steps, *({"free": name, "force": False} for name in call.frees)]
    outcome = engine.ask(steps, stop=True)
    fits = outcome.status in (PASS, UNSUPPORTED)  # what the twin does not judge is L1's, not DRAM's
    return TriedValue(value, fits, outcome.peak_bytes_per_bank["DRAM"], layout.scope.names["bank_bytes"])
