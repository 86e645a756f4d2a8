# SPDX-License-Identifier: Apache-2.0
"""From a place to findings: our own results or other tools' tests, and for each memory failure what would pass."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.hardware import BOARDS, DATA_TYPES
from ttmem.operators.bound_case import device_dtype
from ttmem.operators.case import Case, CaseTensor
from ttmem.operators.catalogue_entries import DEVICE, catalogue
from ttmem.operators.sweeps.advice import Adviser
from ttmem.operators.sweeps.foreign.folder import read_place
from ttmem.operators.sweeps.journal import is_results, read_results
from ttmem.operators.sweeps.plan import Point, SweepSettings
from ttmem.operators.sweeps.result import Result, largest
from ttmem.operators.sweeps.summary import Findings, SweepSummary, summarise
from ttmem.twin.operations import BOUNDED, UNKNOWN

_CROSSED = re.compile(r"[0-9]{1,15}(?:x[0-9]{1,15})*")
MOST_ADVISED = 400
"""Distinct failures that are asked about; the largest first."""


def summarize_results(
    place: Path,
    *,
    generated: str,
    advice: str = "twin",
    python: str | None = None,
    board: str = "n150",
    most_advised: int = MOST_ADVISED,
    watch: Callable[[int, int], None] | None = None,
) -> Findings:
    """Read a place and ask ``advice``, an engine or ``none``, what would pass; boards are opened as in the sweep."""
    if not place.exists():
        raise BadInputError("no such file or folder", where=str(place))
    cases: Mapping[str, Case] = {}
    settings: dict[str, Any] = {}
    if is_own := is_results(place):
        results, cases, facts = read_results(place)
        settings = facts.get("settings") or {}
        summary = _own(place, results, cases, facts)
    else:
        found = read_place(place)
        summary = summarise(
            found.results, operators=found.operators, notes=found.notes, facts={"Files": str(found.files)}
        )
    known: dict[str, Any] = {
        n: settings[n] for n in ("l1_small_bytes", "trace_region_bytes") if isinstance(settings.get(n), int)
    }
    if settings.get("float_dtype", "") in (None, *DATA_TYPES.names()):
        known["float_dtype"] = settings["float_dtype"]
    asked = SweepSettings(engine="twin" if advice == "none" else advice, python=python, **known)
    board = BOARDS.find(board).name
    answers, unadvised = _advise(summary.failures, cases, asked, board, 0 if advice == "none" else most_advised, watch)
    return Findings(
        summary=summary,
        generated=generated,
        source=place.name or str(place),
        advice=answers,
        advice_from=f"{asked.engine} engine, L1_SMALL {asked.l1_small_bytes} B"
        + ("" if is_own else f", board {board} where the log names none"),
        unadvised=unadvised,
    )


def _own(place: Path, results: list[Result], cases: Mapping[str, Case], known: Mapping[str, Any]) -> SweepSummary:
    if not results:
        raise BadInputError("no results yet", where=str(place), hint="'ttmem sweep run' fills it")
    settings = known.get("settings") or {}
    notes = []
    planned = known.get("planned")
    if planned is not None and planned > len(results):
        notes.append(f"the sweep is not finished: {len(results)} of {planned} cases have a result")
    if not_judged := sum(not result.is_judged for result in results):
        notes.append(
            f"{not_judged} of {len(results)} results are not judged: the twin says neither pass nor failure; the mock "
            "engine asks the library"
        )
    if unsure := sum(result.confidence in (BOUNDED, UNKNOWN) and result.is_judged for result in results):
        notes.append(f"{unsure} of {len(results)} results are not exact: their peaks are lower bounds of the twin")
    if assumed := len({result.id for result in results if result.assumed}):
        notes.append(f"{assumed} cases lack arguments in their source; each result lists what was assumed")
    named = {"Engine": "engine", "Boards": "board", "Memories": "memory", "Layouts": "layout"}
    facts = {
        **{head: ", ".join(dict.fromkeys(getattr(one, name) for one in results)) for head, name in named.items()},
        "Cases": str(len({result.id for result in results})),
        "Isolation": "each case ran alone on an empty device",
    }
    if "l1_small_bytes" in settings:
        facts["L1_SMALL"] = f"{settings['l1_small_bytes']} B per core"
    if known.get("ttnn"):
        facts["ttnn"] = str(known["ttnn"])
    float_dtype = settings.get("float_dtype", "bfloat16")
    float_dtype = float_dtype if float_dtype is None or float_dtype in DATA_TYPES else "bfloat16"
    completed = [_add_case(result, cases.get(result.id), float_dtype) for result in results]
    return summarise(completed, notes=notes, facts=facts)


def _add_case(result: Result, case: Case | None, float_dtype: str | None) -> Result:
    """With what the case knows: a line of results has its id alone."""
    if case is None:
        return result._replace(shapes=_shapes_of_id(result.id, result.op), dtype=float_dtype or "bfloat16")
    shapes = tuple(tensor.shape for tensor in case.tensors)
    dtype = device_dtype(case.tensors[largest(shapes)].dtype if shapes else "bfloat16", float_dtype)
    return result._replace(
        shapes=shapes,
        dtype=dtype if dtype in DATA_TYPES else "",
        models=case.models,
    )


def _shapes_of_id(identity: str, op: str) -> tuple[tuple[int, ...], ...]:
    """A results.jsonl alone has no cases, but their ids carry the shapes."""
    words = identity.removeprefix(f"{op}-").rpartition("-")[0].split("_")
    return tuple(tuple(map(int, word.split("x"))) for word in words if _CROSSED.fullmatch(word))


def _advise(
    failures: Iterable[Result],
    cases: Mapping[str, Case],
    settings: SweepSettings,
    board: str,
    most: int,
    watch: Callable[[int, int], None] | None,
) -> tuple[dict[str, list[dict[str, Any]]], int]:
    points: dict[tuple[str, str, str, str], tuple[Point, list[str]]] = {}
    unadvised = 0
    for result in failures:
        point = _point(result, cases.get(result.id), board)
        if point is None or (point.place not in points and len(points) >= most):
            unadvised += 1
        else:
            points.setdefault(point.place, (point, []))[1].append(result.name)
    advice: dict[str, list[dict[str, Any]]] = {}
    with closing(Adviser(settings)) as adviser:
        for number, (point, names) in enumerate(points.values()):
            if watch:
                watch(number, len(points))
            passing = [one.to_json() for one in adviser.advise(point)]
            advice.update((name, passing) for name in names)
    return advice, unadvised


def _point(result: Result, case: Case | None, board: str) -> Point | None:
    """Return the failed question; for another tool's test only the operator and one shape are known."""
    memory = result.memory or result.failed_memory
    if memory not in ("DRAM", "L1"):
        return None
    if case is None:
        name = catalogue().aten_name(result.op)
        operator = catalogue().find(name)
        if operator is None or operator.support != DEVICE or not result.shapes:
            return None
        case = Case(name, (CaseTensor(result.shape, result.dtype or "bfloat16"),))
    named = BOARDS.get(result.board)
    return Point(case, named.name if named else board, memory, result.layout or "tile")
