# SPDX-License-Identifier: Apache-2.0
"""``ttmem.fit``: predict whether a model fits a board."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.engines.interpreters import chosen_python
from ttmem.hardware import BOARDS, DATA_TYPES
from ttmem.operators.tracing import kept_tracer
from ttmem.prediction import run_stream
from ttmem.prediction.advice import RequestChange, suggest_changes
from ttmem.prediction.largest import parse_ranges, expand_ranges
from ttmem.prediction.largest import find_capacity
from ttmem.prediction.language.configuration import wants_recipe
from ttmem.prediction.largest import LargestPrediction, search_largest
from ttmem.prediction.request import Capacity, Prediction, Request
from ttmem.prediction.targets import is_script, build_stream
from ttmem.profile.model import Profile
from ttmem.reports.fit import document as reports

_FLOATS = ("bfloat16", "float32", "bfloat8_b", "bfloat4_b")


@dataclass(frozen=True, eq=False)
class Fit:
    """The answer."""

    prediction: Prediction
    advice: tuple[RequestChange, ...] = ()
    """What would make it fit, the smallest change first; only of what does not fit."""
    largest: LargestPrediction | None = None
    """Set when one was searched; the prediction is that of the largest that fits."""

    @property
    def fits(self) -> bool:
        return self.prediction.fits

    @cached_property
    def profile(self) -> Profile:
        """Of kind ``predicted``: every report, ``diff`` and ``check`` take it; the answer itself is among its facts."""
        told = self.prediction.profile
        return replace(told, facts={**told.facts, "fit": self.to_json()})

    @cached_property
    def capacity(self) -> Capacity | None:
        """Of a language model that a recipe lays out: how many users of how long a context fit; searched when asked."""
        request = self.prediction.request
        return find_capacity(request) if self.largest is None and wants_recipe(request) else None

    @cached_property
    def document(self) -> reports.FitDocument:
        """What ``ttmem fit --json`` says."""
        found = {self.largest.quantity: self.largest.value} if self.largest else None
        return reports.document(self.prediction, self.advice, maximum=found, capacity=self.capacity)

    def to_json(self) -> dict[str, Any]:
        """The document of ``ttmem fit --json``."""
        return self.document.to_json()


def fit(
    target: str,
    *,
    board: str = "n150",
    weights: str | Mapping[str, str] | None = None,
    maximum: str | None = None,
    advice: bool = True,
    python: str | None = None,
    ttnn: str | None = None,
    **asked: Any,
) -> Fit:
    """Predict whether a model fits a board, and how full it gets.

    ``target`` is ``"model.py::load_model"``, ``"hf:ViTConfig"``, or a ttnn script, which is run. ``weights`` is a data
    type for all weights or a mapping of kinds to types; ``asked`` are the other fields of
    ``ttmem.prediction.request.Request`` (``batch``, ``size``, ``sequence``, ...). ``maximum`` (``"batch"``, ``"context"``, ...) searches the largest that
    fits; ``advice=False`` saves the time to fit the changes that would help. ``python`` is an interpreter that has
    ttnn, ``ttnn`` a release.
    """
    request = request_of(target, board=board, weights=weights, python=chosen_python(python, ttnn), **asked)
    return fitted(request, maximum, advice=advice)


def request_of(target: str, *, board: str, weights: str | Mapping[str, str] | None = None, **asked: Any) -> Request:
    """A request in the words of the registries; what they do not know is bad input."""
    given = {"": weights} if isinstance(weights, str) else dict(weights or {})
    types = {kind: _float_type(dtype) for kind, dtype in given.items()}
    for name in ("dtype", "kv_cache"):
        if asked.get(name):
            asked[name] = _float_type(asked[name])
    found = BOARDS.find(board)
    if not found.runs_operations:
        raise BadInputError(f"the library refuses every operation on {found.name}", hint="another --board")
    try:
        return Request(target, found.name, weights=types, **asked)
    except TypeError as error:
        raise BadInputError(str(error).replace("Request.__init__()", "fit")) from None


def _float_type(name: str) -> str:
    found = DATA_TYPES.find(name).name
    if found not in _FLOATS:
        raise BadInputError(f"models are not computed in {found}", hint=f"known: {', '.join(_FLOATS)}")
    return found


def on_boards(request: Request, boards: Sequence[str]) -> list[Fit]:
    """The same model on several boards; none: on all that run operations."""
    names = [BOARDS.find(name).name for name in boards] or [board.name for board in BOARDS if board.runs_operations]
    with kept_tracer():
        return [fitted(replace(request, board=name), advice=False) for name in names]


def over_ranges(request: Request, text: str) -> reports.FitSweep:
    """The same model over ranges (``batch=1..64,size=224|640``)."""
    asked = list(expand_ranges(request, parse_ranges(text)))
    with kept_tracer():
        build_stream(asked[0][1])  # bad targets are told before an engine is started
        with run_stream.open_for_request(request) as engine:
            found = [(place, run_stream.predict_stream(build_stream(one), one, engine)) for place, one in asked]
    return reports.sweep_document(found)


def fitted(request: Request, maximum: str | None = None, *, advice: bool = True) -> Fit:
    """The answer to a request, or to the largest that fits."""
    if maximum == "size" and wants_recipe(request):
        raise BadInputError(
            "a language model has no image size", where=request.target, hint="--max context, users or seq"
        )
    if is_script(request.target):
        if maximum:
            raise BadInputError("a script decides its sizes itself", where=request.target, hint="leave --max out")
        return Fit(run_stream.predict_script(request))
    with kept_tracer(), run_stream.start_engine(request) as (engine, ready):
        stream = build_stream(request)
        ready()

        def predict(changed: Request) -> Prediction:
            is_same = changed.engine == request.engine and run_stream.engine_settings(
                changed
            ) == run_stream.engine_settings(request)
            return run_stream.predict_stream(build_stream(changed), changed, engine if is_same else None)

        if maximum is not None:
            found = search_largest(request, maximum, predict)
            return Fit(found.prediction, largest=found)
        prediction = run_stream.predict_stream(stream, request, engine)
        return Fit(prediction, suggest_changes(prediction, predict) if advice else ())
