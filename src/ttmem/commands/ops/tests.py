# SPDX-License-Identifier: Apache-2.0
"""``ttmem ops tests``: pytest files, one per operator, for a card and for the mock."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ttmem._errors import BadInputError, MissingPartError
from ttmem.commands._options import python_option, quiet_option
from ttmem.commands._output import emit, json_text, note
from ttmem.commands._runner import verb

if TYPE_CHECKING:
    from ttmem.operators import Case
    from ttmem.operators.pytest_files import Predictions

_EXAMPLES = """
ttmem ops tests cases.jsonl -o generated
ttmem ops tests cases.jsonl -o generated --board n150 --board p150 --op silu --op add
ttmem ops tests cases.jsonl -o generated --engine none
"""
_L1_SMALL_BYTES = 32768
"""What sweeps open with: convolutions and pools need it."""


@verb("tests", examples=_EXAMPLES)
@click.argument("cases", metavar="CASES")
@click.option("-o", "--output", required=True, metavar="DIR", help="Write the files there.")
@click.option(
    "--op", "operators", multiple=True, metavar="NAME", help="Only this operator (aten name); several may be."
)
@click.option("--most", type=click.IntRange(min=1), metavar="N", help="At most N cases per operator, the most used.")
@click.option(
    "--board",
    "boards",
    multiple=True,
    default=("n150",),
    show_default=True,
    help="Predict for this board; several may be.",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "mock", "none"]),
    default="auto",
    show_default=True,
    help="Who predicts: the real ttnn on a mock board, or sizes alone (none).",
)
@python_option()
@click.option("--json", "as_json", is_flag=True, help="What was written, as one JSON document.")
@quiet_option
def command(
    cases: str,
    output: str,
    operators: tuple[str, ...],
    most: int | None,
    boards: tuple[str, ...],
    engine: str,
    python: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Write one pytest file per operator: every case in DRAM and in L1, on a card and on the mock.

    On a card results are compared with torch; on a mock board the memory alone is tested. Outcomes are predicted with
    the real ttnn on a mock board and held to strictly: a case that should run out of memory must do so. Run them with
    'ttmem test DIR --board n150', with pytest in a checkout of tt-metal, or with run_all_tests.sh. Exit 1 when no case
    can be tested.
    """
    from ttmem.hardware import BOARDS
    from ttmem.operators import read_cases
    from ttmem.operators.pytest_files import test_files
    from ttmem.reports.ops.document import LeftOut, OpsTests

    chosen = _chosen(read_cases(cases), operators, most)
    names = tuple(dict.fromkeys(BOARDS.find(board).name for board in boards))
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise BadInputError("is not a folder", where=output)
    predictions = _predictions(chosen, names, engine=engine, python=python, quiet=quiet)
    made = test_files(chosen, predictions, l1_small_bytes=_L1_SMALL_BYTES)
    if made.tests:
        _write(folder, made.files)
    if as_json:
        found = OpsTests.of(
            made,
            folder=str(folder),
            files=sorted(made.files) if made.tests else [],
            predicted_on=sorted(predictions.devices),
            left_out=[LeftOut(*one) for one in made.left_out],
        )
        emit(json_text(found), None)
    else:
        total = sum(made.tests.values())
        note(f"{total} tests of {len(made.tests)} operators in {folder}", quiet=quiet)
        for reason, count in _reasons(made.left_out).items():
            note(f"left out: {count} x {reason}", quiet=quiet)
    return 0 if made.tests else 1


def _chosen(cases: list[Case], operators: tuple[str, ...], most: int | None) -> list[Case]:
    known = {case.op for case in cases}
    for name in operators:
        if name not in known:
            raise BadInputError(f"no case of '{name}'", hint=f"there are {', '.join(sorted(known))}")
    kept = [case for case in cases if not operators or case.op in operators]
    if most is None:
        return kept
    ranked = sorted(range(len(kept)), key=lambda index: (-kept[index].count, index))
    counted: dict[str, int] = {}
    chosen = set()
    for index in ranked:
        op = kept[index].op
        if counted.get(op, 0) < most:
            counted[op] = counted.get(op, 0) + 1
            chosen.add(index)
    return [case for index, case in enumerate(kept) if index in chosen]


def _predictions(
    cases: list[Case], boards: tuple[str, ...], *, engine: str, python: str | None, quiet: bool
) -> Predictions:
    from ttmem.operators.pytest_files import Predictions

    if engine == "none":
        return Predictions()
    try:
        return _from_mock(cases, boards, python=python, quiet=quiet)
    except MissingPartError as error:
        if engine == "mock":
            raise
        note(f"ttmem: outcomes are predicted from sizes alone: {error}", quiet=quiet)
        return Predictions()


def _from_mock(cases: list[Case], boards: tuple[str, ...], *, python: str | None, quiet: bool) -> Predictions:
    """What the real library says of every case, in both memories."""
    from ttmem.commands._progress import progress_bar
    from ttmem.engines.ttnn import TtnnEngine
    from ttmem.operators import recipe_of
    from ttmem.operators.pytest_files import MEMORIES, Predictions, recipes_of

    recipes, _ = recipes_of(cases)
    asked = [(recipe.case, memory) for recipe in recipes for memory in MEMORIES]
    outcomes: dict[str, dict[str, dict[str, str]]] = {}
    devices: dict[str, dict[str, tuple[int, int]]] = {}
    for board in boards:
        with (
            progress_bar(f"predicting on {board}", quiet=quiet) as progress,
            TtnnEngine(board=board, python=python, l1_small_bytes=_L1_SMALL_BYTES, measure_programs=False) as engine,
        ):
            pools = engine.device["pools"]
            devices[board] = {memory: (pools[memory][0], pools[memory][2]) for memory in MEMORIES}
            requests = [recipe_of(case, memory=memory).steps for case, memory in asked]
            for done, ((case, memory), outcome) in enumerate(
                zip(asked, engine.ask_all(requests, stop=True), strict=True), 1
            ):
                outcomes.setdefault(case.id, {}).setdefault(board, {})[memory] = outcome.status
                if progress:
                    progress(done, len(asked))
    return Predictions(outcomes, devices)


def _write(folder: Path, files: Mapping[str, str]) -> None:
    from ttmem._atomic import write_bytes

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_bytes(folder / name, text.encode())
    script = folder / "run_all_tests.sh"
    script.chmod(script.stat().st_mode | 0o111)


def _reasons(left_out: tuple[tuple[str, str], ...]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for _, reason in left_out:
        counted[reason] = counted.get(reason, 0) + 1
    return dict(sorted(counted.items(), key=lambda item: -item[1])[:12])
