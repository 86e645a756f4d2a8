# SPDX-License-Identifier: Apache-2.0
"""From a place to findings: our own results or other tools' logs, and for each memory failure what would pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ttmem._errors import BadInputError
from ttmem.hardware import BOARDS
from ttmem.operators import DEVICE, Case, CaseTensor, catalogue
from ttmem.sweep.advice import Adviser
from ttmem.sweep.findings import Findings
from ttmem.sweep.foreign import read_foreign
from ttmem.sweep.journal import is_results, read_results
from ttmem.sweep.plan import Point, Settings
from ttmem.sweep.summary import Summary, summarise
from ttmem.sweep.tests import Test, from_rows

MOST_ADVISED = 400
"""Distinct failures that are asked about; the largest first."""


def gather(
    place: Path,
    *,
    generated: str,
    settings: Settings | None = None,
    board: str = "n150",
    most_advised: int = MOST_ADVISED,
    watch: Callable[[int, int], None] | None = None,
) -> Findings:
    """Read a place and ask for advice; ``settings`` name the engine that is asked, the twin where they do not."""
    if not place.exists():
        raise BadInputError("no such file or folder", where=str(place))
    if is_results(place):
        summary, told = _own(place)
        kind = "sweep"
        settings = settings or _like(told)
    else:
        found = read_foreign(place)
        facts = {"Files": str(found.files)}
        summary = summarise(found.tests, operators=found.operators, notes=found.notes, facts=facts)
        kind = "foreign"
        settings = settings or Settings()
    advice, unadvised = _advise(summary.failures, settings, BOARDS.find(board).name, most_advised, watch)
    return Findings(
        summary=summary,
        generated=generated,
        source=place.name or str(place),
        kind=kind,
        advice=advice,
        advice_from=f"{settings.engine} engine, L1_SMALL {settings.l1_small_bytes} B"
        + ("" if kind == "sweep" else f", board {board} where the log names none"),
        unadvised=unadvised,
    )


def _own(place: Path) -> tuple[Summary, dict[str, Any]]:
    rows, cases, told = read_results(place)
    if not rows:
        raise BadInputError("no results yet", where=str(place), hint="'ttmem sweep run' fills it")
    settings = told.get("settings") or {}
    notes = []
    planned = told.get("planned")
    if planned is not None and planned > len(rows):
        notes.append(f"the sweep is not finished: {len(rows)} of {planned} cases have a result")
    unsure = sum(row.confidence in ("bounded", "unknown") for row in rows)
    if unsure:
        notes.append(
            f"{unsure} of {len(rows)} rows are the twin's lower bounds, not exact; the mock engine asks the library"
        )
    assumed = len({row.id for row in rows if row.assumed})
    if assumed:
        notes.append(f"{assumed} cases lack arguments in their source; what was assumed stands on each result")
    facts = {
        "Engine": ", ".join(dict.fromkeys(row.engine for row in rows)),
        "Boards": ", ".join(dict.fromkeys(row.board for row in rows)),
        "Memories": ", ".join(dict.fromkeys(row.memory for row in rows)),
        "Layouts": ", ".join(dict.fromkeys(row.layout for row in rows)),
        "Cases": str(len({row.id for row in rows})),
        "Isolation": "each case ran alone on an empty device",
    }
    if "l1_small_bytes" in settings:
        facts["L1_SMALL"] = f"{settings['l1_small_bytes']} B per core"
    if told.get("ttnn"):
        facts["ttnn"] = str(told["ttnn"])
    tests = from_rows(rows, cases, settings.get("float_dtype", "bfloat16"))
    return summarise(tests, notes=notes, facts=facts), told


def _like(told: dict[str, Any]) -> Settings:
    """The twin, opened as the sweep's boards were."""
    settings = told.get("settings") or {}
    known = {
        name: settings[name] for name in ("l1_small_bytes", "trace_region_bytes", "float_dtype") if name in settings
    }
    return Settings(engine="twin", **known)


def _advise(
    failures: Iterable[Test],
    settings: Settings,
    board: str,
    most: int,
    watch: Callable[[int, int], None] | None,
) -> tuple[dict[str, list[dict[str, Any]]], int]:
    points: dict[tuple[str, str, str, str], tuple[Point, list[str]]] = {}
    unadvised = 0
    for test in failures:
        point = _point(test, board)
        if point is None:
            unadvised += 1
            continue
        key = (point.case.id, point.board, point.memory, point.layout)
        if key not in points and len(points) >= most:
            unadvised += 1
            continue
        points.setdefault(key, (point, []))[1].append(test.name)
    adviser = Adviser(settings)
    advice: dict[str, list[dict[str, Any]]] = {}
    try:
        for number, (point, names) in enumerate(points.values()):
            if watch:
                watch(number, len(points))
            told = [one.to_json() for one in adviser.advise(point)]
            advice.update((name, told) for name in names)
    finally:
        adviser.close()
    return advice, unadvised


def _point(test: Test, board: str) -> Point | None:
    """What failed, as a question; of another tool's test only the operator and one shape are known."""
    memory = test.memory or test.failed_memory
    if memory not in ("DRAM", "L1"):
        return None
    case = test.case
    if case is None:
        name = catalogue().aten_name(test.operator)
        operator = catalogue().find(name)
        if operator is None or operator.support != DEVICE or not test.shapes:
            return None
        case = Case(name, (CaseTensor(test.shape, test.dtype or "bfloat16"),))
    named = test.board if test.board in {one.name for one in BOARDS} else board
    return Point(case, named, memory, test.layout or "tile")
