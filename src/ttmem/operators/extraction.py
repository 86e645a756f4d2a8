# SPDX-License-Identifier: Apache-2.0
"""Extract cases and call graphs from models and lists."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.operators.case import Case, case_from_json, merge_cases
from ttmem.operators.catalogue_entries import catalogue
from ttmem.operators.sources.detect import read_list
from ttmem.operators.tracer.job import TraceJob
from ttmem.operators.tracing import SourceResult, ask_once, trace_all

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
    """A call of an aten operator."""

    case: Case
    takes: tuple[int, ...]
    """The value of each of the case's tensors."""
    makes: tuple[int, ...]
    """A call that writes in place makes what it takes."""
    module: str


@dataclass(frozen=True, slots=True)
class Graph:
    """A forward pass."""

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
    """Trace a model at one size; a model that refuses the size is bad input."""
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


Progress = Callable[[int, int, str], None]
_TARGETS = "TARGET is FILE.py::load_model, hf:ViTConfig, or a list: operators CSV, master/sweep JSON, variations"


@dataclass(frozen=True, slots=True)
class Extraction:
    """The extracted cases, and the contribution of each target."""

    cases: tuple[Case, ...]
    sources: tuple[SourceResult, ...]


def is_model(target: str) -> bool:
    """Return True if a target is traced; any other target is a list to read."""
    return target.startswith("hf:") or "::" in target


def extract(
    targets: Sequence[str],
    how: TraceJob,
    *,
    sizes: Sequence[tuple[int, int]] = (),
    python: str | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> Extraction:
    """The cases of all targets in their order, equal ones merged; a model that refuses its size is a result.

    Models are traced as ``how`` says, each at each of the ``sizes`` (none: at its own).
    """
    asked: list[str | TraceJob] = []
    for target in targets:
        if is_model(target):
            asked += [replace(how, target=target, size=size) for size in sizes or (None,)]
        elif Path(target).exists():
            asked.append(target)
        else:
            raise BadInputError("no such file", where=target, hint=_TARGETS)
    found: dict[int, SourceResult] = {}

    def keep(place: int, result: SourceResult, name: str) -> None:
        found[place] = result
        if progress:
            progress(len(found), len(asked), name)

    for place, one in enumerate(asked):
        if isinstance(one, str):
            keep(place, _read_list(one), one)
    jobs = {place: one for place, one in enumerate(asked) if isinstance(one, TraceJob)}
    if jobs:
        for number, result in trace_all(list(jobs.values()), python=python, workers=workers):
            keep(list(jobs)[number], result, result.model)
    sources = tuple(found[place] for place in sorted(found))
    return Extraction(tuple(merge_cases(case for source in sources for case in source.cases)), sources)


def _read_list(path: str) -> SourceResult:
    found = read_list(path)
    remarks = [f"{count} {reason}" for reason, count in found.skipped.items()]
    if found.other_names:
        shown = ", ".join(found.other_names[:8]) + (", ..." if len(found.other_names) > 8 else "")
        remarks.append(f"{len(found.other_names)} names are no operators: {shown}")
    calls = sum(case.count for case in found.cases)
    return SourceResult(path, Path(path).name, found.cases, calls, remarks=tuple(remarks), kind=found.kind)
