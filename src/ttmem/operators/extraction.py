# SPDX-License-Identifier: Apache-2.0
"""``extract``: the cases of models and of other tools' lists, merged into one set."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ttmem.base.errors import BadInputError
from ttmem.operators.case import Case, merge_cases
from ttmem.operators.sources.detect import read_list
from ttmem.operators.tracer.job import TraceJob
from ttmem.operators.tracing import SourceResult, trace_all

Progress = Callable[[int, int, str], None]
_TARGETS = "TARGET is FILE.py::load_model, hf:ViTConfig, or a list: operators CSV, master/sweep JSON, variations"


@dataclass(frozen=True, slots=True)
class Extraction:
    """All cases, and what each target gave."""

    cases: tuple[Case, ...]
    sources: tuple[SourceResult, ...]


def is_model(target: str) -> bool:
    """Whether a target is traced; everything else is a list to read."""
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
            keep(place, _from_list(one), one)
    jobs = {place: one for place, one in enumerate(asked) if isinstance(one, TraceJob)}
    if jobs:
        for number, result in trace_all(list(jobs.values()), python=python, workers=workers):
            keep(list(jobs)[number], result, result.model)
    sources = tuple(found[place] for place in sorted(found))
    return Extraction(tuple(merge_cases(case for source in sources for case in source.cases)), sources)


def _from_list(path: str) -> SourceResult:
    found = read_list(path)
    remarks = [f"{count} {reason}" for reason, count in found.skipped.items()]
    if found.other_names:
        shown = ", ".join(found.other_names[:8]) + (", ..." if len(found.other_names) > 8 else "")
        remarks.append(f"{len(found.other_names)} names are no operators: {shown}")
    calls = sum(case.count for case in found.cases)
    return SourceResult(path, Path(path).name, found.cases, calls, remarks=tuple(remarks), kind=found.kind)
