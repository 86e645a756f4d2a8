# SPDX-License-Identifier: Apache-2.0
"""``ttmem.fit``: whether a model fits a board, said before it runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ttmem._errors import BadInputError
from ttmem.engines.interpreters import chosen_python
from ttmem.fit import playing, running
from ttmem.fit.language.capacity import capacity_of
from ttmem.fit.language.configuration import wants_recipe
from ttmem.fit.request import Capacity, Prediction, Request
from ttmem.fit.searching import Largest, search
from ttmem.fit.targets import is_script, stream_of
from ttmem.hardware import BOARDS, DATA_TYPES
from ttmem.profile import Profile
from ttmem.reports.fit import document as reports


@dataclass(frozen=True, eq=False)
class Fit:
    """What came of it."""

    prediction: Prediction
    largest: Largest | None = None
    """Where one was searched; the prediction is that of the largest that fits."""

    @property
    def fits(self) -> bool:
        return self.prediction.fits

    @property
    def profile(self) -> Profile:
        """Of kind ``predicted``: every report, ``diff`` and ``check`` take it."""
        return self.prediction.profile

    @cached_property
    def capacity(self) -> Capacity | None:
        """Of a language model that a recipe lays out: how many users of how long a context fit; searched when asked."""
        request = self.prediction.request
        return capacity_of(request) if self.largest is None and wants_recipe(request) else None

    @cached_property
    def document(self) -> reports.FitDocument:
        """What ``ttmem fit --json`` says."""
        found = {self.largest.quantity: self.largest.value} if self.largest else None
        return reports.document(self.prediction, maximum=found, capacity=self.capacity)

    def to_json(self) -> dict[str, Any]:
        """The document of ``ttmem fit --json``."""
        return self.document.to_json()


def fit(
    target: str,
    *,
    board: str = "n150",
    weights: str | Mapping[str, str] | None = None,
    maximum: str | None = None,
    python: str | None = None,
    ttnn: str | None = None,
    **asked: Any,
) -> Fit:
    """Whether a model fits a board, and how full it gets.

    ``target`` is ``"model.py::load_model"``, ``"hf:ViTConfig"``, or a ttnn script, which is run. ``weights`` is a data
    type for all weights or a mapping of kinds to types; ``asked`` are the other fields of ``ttmem.fit.request.Request``
    (``batch``, ``size``, ``sequence``, ...). ``maximum`` (``"batch"``, ``"context"``, ...) searches the largest that
    fits. ``python`` is an interpreter that has ttnn, ``ttnn`` a release.
    """
    request = request_of(target, board=board, weights=weights, python=chosen_python(python, ttnn), **asked)
    return fitted(request, maximum)


def request_of(target: str, *, board: str, weights: str | Mapping[str, str] | None = None, **asked: Any) -> Request:
    """A request in the words of the registries; what they do not know is bad input."""
    given = {"": weights} if isinstance(weights, str) else dict(weights or {})
    types = {kind: DATA_TYPES.find(dtype).name for kind, dtype in given.items()}
    for name in ("dtype", "kv_cache"):
        if asked.get(name):
            asked[name] = DATA_TYPES.find(asked[name]).name
    try:
        return Request(target, BOARDS.find(board).name, weights=types, **asked)
    except TypeError as error:
        raise BadInputError(str(error).replace("Request.__init__()", "fit")) from None


def fitted(request: Request, maximum: str | None = None) -> Fit:
    """The answer to a request, or to the largest that fits."""
    if is_script(request.target):
        if maximum:
            raise BadInputError("a script decides its sizes itself", where=request.target, hint="leave --max out")
        return Fit(running.ran(request))
    if maximum is None:
        return Fit(playing.play(stream_of(request), request))
    with playing.opened(request) as engine:
        found = search(request, maximum, lambda changed: playing.play(stream_of(changed), changed, engine))
    return Fit(found.prediction, found)
