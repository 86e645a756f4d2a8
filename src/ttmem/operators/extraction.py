# SPDX-License-Identifier: Apache-2.0
"""``extract``: the cases of models and of other tools' lists, merged into one set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ttmem._errors import BadInputError
from ttmem.operators.case import Case, merge_cases
from ttmem.operators.sources import read_list
from ttmem.operators.tracing import TraceJob, trace_all

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class SourceResult:
    """What one target (at one size) gave."""

    target: str
    model: str
    size: str
    kind: str
    """``model``, or the format of a list."""
    calls: int
    operators: int
    cases: int
    parameters: int | None
    seconds: float
    refusal: str = ""
    remarks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "model": self.model,
            "size": self.size,
            "kind": self.kind,
            "status": "refused" if self.refusal else "ok",
            "calls": self.calls,
            "operators": self.operators,
            "cases": self.cases,
            "parameters": self.parameters,
            "seconds": round(self.seconds, 3),
            "refusal": self.refusal or None,
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, slots=True)
class Extraction:
    """All cases, and what each target gave."""

    cases: tuple[Case, ...]
    sources: tuple[SourceResult, ...]

    @property
    def refused(self) -> tuple[SourceResult, ...]:
        return tuple(source for source in self.sources if source.refusal)


@dataclass(frozen=True, slots=True)
class ExtractSettings:
    """How models are traced."""

    inputs: str = ""
    sizes: tuple[tuple[int, int], ...] = ()
    """Each model at each of them; none: at its own."""
    settings: tuple[tuple[str, Any], ...] = ()
    batch: int = 1
    sequence: int = 128
    eager_attention: bool = False
    python: str | None = None
    workers: int = 1


def is_model(target: str) -> bool:
    """Whether a target is traced; everything else is a list to read."""
    return target.startswith("hf:") or "::" in target


def extract(targets: Sequence[str], settings: ExtractSettings, progress: Progress | None = None) -> Extraction:
    """The cases of all targets in their order, equal ones merged; a model that refuses its size is a result."""
    listed, traced = _lists(targets), _jobs(targets, settings)
    found: dict[int, tuple[SourceResult, Sequence[Case]]] = {}
    total = len(listed) + len(traced)
    done = 0
    for position, path in listed:
        found[position] = _from_list(path)
        done += 1
        if progress:
            progress(done, total, path)
    if traced:
        jobs = [job for _, job in traced]
        for number, trace in trace_all(jobs, python=settings.python, workers=settings.workers):
            result = SourceResult(
                trace.job.target,
                trace.job.model,
                trace.size,
                "model",
                trace.calls,
                len({case.op for case in trace.cases}),
                len(trace.cases),
                trace.parameters if trace.ok else None,
                trace.seconds,
                trace.refusal,
                trace.remarks,
            )
            found[traced[number][0]] = result, trace.cases
            done += 1
            if progress:
                progress(done, total, trace.job.model)
    ordered = [found[position] for position in sorted(found)]
    return Extraction(
        tuple(merge_cases(case for _, cases in ordered for case in cases)), tuple(source for source, _ in ordered)
    )


def _lists(targets: Sequence[str]) -> list[tuple[int, str]]:
    lists = [(index * _PER_TARGET, target) for index, target in enumerate(targets) if not is_model(target)]
    for _, path in lists:
        if not Path(path).exists():
            hint = (
                "TARGET is FILE.py::load_model, hf:ViTConfig, or a list: operators CSV, master/sweep JSON, variations"
            )
            raise BadInputError("no such file", where=path, hint=hint)
    return lists


_PER_TARGET = 1000
"""Room for the sizes of one target in the order of results."""


def _jobs(targets: Sequence[str], settings: ExtractSettings) -> list[tuple[int, TraceJob]]:
    base = TraceJob(
        "",
        settings.inputs,
        None,
        dict(settings.settings),
        settings.batch,
        settings.sequence,
        settings.eager_attention,
    )
    return [
        (index * _PER_TARGET + number, replace(base, target=target, size=size))
        for index, target in enumerate(targets)
        if is_model(target)
        for number, size in enumerate(settings.sizes or (None,))
    ]


def _from_list(path: str) -> tuple[SourceResult, Sequence[Case]]:
    found = read_list(path)
    remarks = [f"{count} {reason}" for reason, count in found.skipped.items()]
    if found.other_names:
        shown = ", ".join(found.other_names[:8]) + (", ..." if len(found.other_names) > 8 else "")
        remarks.append(f"{len(found.other_names)} names are no operators: {shown}")
    result = SourceResult(
        path,
        Path(path).name,
        "",
        found.kind,
        sum(case.count for case in found.cases),
        len({case.op for case in found.cases}),
        len(found.cases),
        None,
        0.0,
        remarks=tuple(remarks),
    )
    return result, found.cases
