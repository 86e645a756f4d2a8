# SPDX-License-Identifier: Apache-2.0
"""A model as a graph: every call in order, which value feeds which, and what Python drops when. No weights."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.operators.case import Case, case_from_json
from ttmem.operators.catalogue_entries import catalogue
from ttmem.operators.tracer.job import TraceJob
from ttmem.operators.tracing import ask_once

FUSED_HEADS_OF = 32
"""ttnn's fused attention takes no padding along the heads' size, so it must be whole tiles."""
PARAMETER, BUFFER, INPUT, CONSTANT = "parameter", "buffer", "input", "constant"
"""What values are that no call makes; a constant is one of the model's own code."""


@dataclass(frozen=True, slots=True)
class GraphValue:
    """A tensor of the model, whatever becomes of it."""

    shape: tuple[int, ...]
    dtype: str
    role: str = ""
    """Empty: a call makes it."""
    name: str = ""


@dataclass(frozen=True, slots=True)
class GraphCall:
    """One call of an aten operator."""

    case: Case
    takes: tuple[int, ...]
    """The value of each of the case's tensors."""
    makes: tuple[int, ...]
    """A call that writes in place makes what it takes."""
    module: str


@dataclass(frozen=True, slots=True)
class Graph:
    """One forward pass."""

    model: str
    size: str
    parameters: int
    values: tuple[GraphValue, ...]
    calls: tuple[GraphCall, ...]
    results: frozenset[int]
    """What the model returns."""
    dropped: Mapping[int, int]
    """Value -> how many calls had been made when Python let it go."""
    remarks: tuple[str, ...] = ()


def trace_graph(job: TraceJob, *, python: str | None = None) -> Graph:
    """One model at one size; one that refuses it is bad input here, because nothing can be said of it."""
    asked = replace(job, as_graph=True, known=tuple(catalogue().operators), fused_heads_of=FUSED_HEADS_OF)
    answer = ask_once(asked, python=python)
    if problem := answer.get("problem"):
        what = f"the model refuses {job.size_text}" if job.size else "the model does not run"
        hint = "try another --size, --seq or --set, or name its inputs with --inputs FILE.py::FN"
        raise BadInputError(f"{what}: {problem}", where=job.target, hint=hint)
    return _graph(job, answer)


def _graph(job: TraceJob, answer: Mapping[str, Any]) -> Graph:
    told = answer["graph"]
    calls = []
    for raw in told["calls"]:
        makes, module = tuple(raw.pop("made")), raw.pop("module")
        takes = tuple(tensor.pop("value") for tensor in raw["tensors"])
        calls.append(GraphCall(case_from_json(raw), takes, makes, module))
    return Graph(
        job.model,
        answer["size"],
        answer["parameters"],
        tuple(GraphValue(**{**value, "shape": tuple(value["shape"])}) for value in told["values"]),
        tuple(calls),
        frozenset(told["results"]),
        dict(told["dropped"]),
        tuple(answer["remarks"]),
    )
