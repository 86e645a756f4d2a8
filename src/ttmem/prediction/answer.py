# SPDX-License-Identifier: Apache-2.0
"""Predict requests: one model, the same on several boards or over ranges, the largest that fits, what would help."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.hardware import BOARDS, DATA_TYPES
from ttmem.operators.tracing import keep_tracer
from ttmem.prediction import run_stream
from ttmem.prediction.advice import RequestChange, suggest_changes
from ttmem.prediction.language.configuration import wants_recipe
from ttmem.prediction.largest import LargestPrediction, expand_ranges, parse_ranges, search_largest
from ttmem.prediction.request import Prediction, Request
from ttmem.prediction.targets import build_stream, is_script

_FLOATS = ("bfloat16", "float32", "bfloat8_b", "bfloat4_b")


@dataclass(frozen=True, eq=False)
class PredictionAnswer:
    """A prediction, and what was searched with it."""

    prediction: Prediction
    advice: tuple[RequestChange, ...] = ()
    """Changes that would make it fit, the smallest first; empty when it fits."""
    largest: LargestPrediction | None = None
    """Set when one was searched; the prediction is that of the largest that fits."""


def build_request(target: str, *, board: str, weights: str | Mapping[str, str] | None = None, **fields: Any) -> Request:
    """Return a request in the words of the registries; what they do not know is bad input."""
    given = {"": weights} if isinstance(weights, str) else dict(weights or {})
    types = {kind: _find_float_type(dtype) for kind, dtype in given.items()}
    for name in ("dtype", "kv_cache"):
        if fields.get(name):
            fields[name] = _find_float_type(fields[name])
    found = BOARDS.find(board)
    if not found.runs_operations:
        raise BadInputError(f"the library refuses every operation on {found.name}", hint="another --board")
    try:
        return Request(target, found.name, weights=types, **fields)
    except TypeError as error:
        raise BadInputError(str(error).replace("Request.__init__()", "fit")) from None


def _find_float_type(name: str) -> str:
    found = DATA_TYPES.find(name).name
    if found not in _FLOATS:
        raise BadInputError(f"models are not computed in {found}", hint=f"known: {', '.join(_FLOATS)}")
    return found


def list_boards(names: Sequence[str]) -> list[str]:
    """Return each board once, in the registry's words; ``all`` are those that run operations."""
    if "all" in names:
        return [board.name for board in BOARDS if board.runs_operations]
    return list(dict.fromkeys(BOARDS.find(name).name for name in names))


def predict_on_boards(request: Request, boards: Sequence[str]) -> list[PredictionAnswer]:
    """Predict the same model on several boards."""
    with keep_tracer():
        return [predict_request(replace(request, board=name), advice=False) for name in boards]


def predict_ranges(request: Request, text: str) -> list[tuple[dict[str, int], Prediction]]:
    """Predict the same model over ranges (``batch=1..64,size=224|640``)."""
    points = list(expand_ranges(request, parse_ranges(text)))
    with keep_tracer():
        build_stream(points[0][1])  # a bad target is reported before an engine is started
        with run_stream.open_for_request(request) as engine:
            return [(place, run_stream.predict_stream(build_stream(one), one, engine)) for place, one in points]


def predict_request(request: Request, maximum: str | None = None, *, advice: bool = True) -> PredictionAnswer:
    """Predict a request, or the largest one that fits."""
    if maximum == "size" and wants_recipe(request):
        raise BadInputError(
            "a language model has no image size", where=request.target, hint="--max context, users or seq"
        )
    if is_script(request.target):
        if maximum:
            raise BadInputError("a script decides its sizes itself", where=request.target, hint="leave --max out")
        return PredictionAnswer(run_stream.predict_script(request))
    with keep_tracer(), run_stream.start_engine(request) as (engine, ready):
        stream = build_stream(request)
        ready()
        settings = run_stream.engine_settings(request)

        def predict(changed: Request) -> Prediction:
            is_same = changed.engine == request.engine and run_stream.engine_settings(changed) == settings
            return run_stream.predict_stream(build_stream(changed), changed, engine if is_same else None)

        if maximum is not None:
            found = search_largest(request, maximum, predict)
            return PredictionAnswer(found.prediction, largest=found)
        prediction = run_stream.predict_stream(stream, request, engine)
        return PredictionAnswer(prediction, suggest_changes(prediction, predict) if advice else ())
