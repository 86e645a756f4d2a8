# SPDX-License-Identifier: Apache-2.0
"""``ttmem ops tests``: Write pytest files, one per operator, for a card and for the mock."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import click

from ttmem.base.errors import BadInputError, MissingPartError
from ttmem.commands.options import choice_option, count_option, python_option, quiet_option
from ttmem.commands.ops._common import L1_SMALL_BYTES, folder_at, statuses_on_mock, write_files
from ttmem.commands.output import emit, json_text, note
from ttmem.commands.command_line import verb

if TYPE_CHECKING:
    from ttmem.operators.case import Case
    from ttmem.operators.pytest_files import Predictions


@verb("""
ttmem ops tests cases.jsonl -o generated
ttmem ops tests cases.jsonl -o generated --board n150 --board p150 --op silu --op add
ttmem ops tests cases.jsonl -o generated --engine none
""")
@click.argument("cases", metavar="CASES")
@click.option("-o", "--output", required=True, metavar="DIR", help="Write the files there.")
@click.option(
    "--op", "operators", multiple=True, metavar="NAME", help="Only this operator (aten name); several may be."
)
@count_option("--most", help="At most N cases per operator, the most used.")
@click.option(
    "--board",
    "boards",
    multiple=True,
    default=("n150",),
    show_default=True,
    help="Predict for this board; several may be.",
)
@choice_option(
    "--engine", "auto", "mock", "none", help="Who predicts: the real ttnn on a mock board, or sizes alone (none)."
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
    as_json: bool,
    **mock: Any,
) -> int:
    """Write one pytest file per operator: every case in DRAM and in L1, on a card and on the mock.

    On a card results are compared with torch; on a mock board the memory alone is tested. Outcomes are predicted with
    the real ttnn on a mock board and held to strictly: a case that should run out of memory must do so. Run them with
    'ttmem test DIR --board n150', with pytest in a checkout of tt-metal, or with run_all_tests.sh. Exit 1 when no case
    can be tested.
    """
    from ttmem.hardware import BOARDS
    from ttmem.operators.case_files import read_cases
    from ttmem.operators.pytest_files import test_files
    from ttmem.reports.ops.document import LeftOut, OpsTests

    chosen = _chosen(read_cases(cases), operators, most)
    names = tuple(dict.fromkeys(BOARDS.find(board).name for board in boards))
    folder = folder_at(output)
    predictions = _predictions(chosen, names, engine, **mock)
    made = test_files(chosen, predictions, l1_small_bytes=L1_SMALL_BYTES)
    if made.tests:
        write_files(folder, made.files)
        script = folder / "run_all_tests.sh"
        script.chmod(script.stat().st_mode | 0o111)
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
        note(f"{total} tests of {len(made.tests)} operators in {folder}", quiet=mock["quiet"])
        for reason, count in Counter(reason for _, reason in made.left_out).most_common(12):
            note(f"left out: {count} x {reason}", quiet=mock["quiet"])
    return 0 if made.tests else 1


def _chosen(cases: list[Case], operators: tuple[str, ...], most: int | None) -> list[Case]:
    known = {case.op for case in cases}
    for name in operators:
        if name not in known:
            raise BadInputError(f"no case of '{name}'", hint=f"there are {', '.join(sorted(known))}")
    kept = [case for case in cases if not operators or case.op in operators]
    most_used: dict[str, list[int]] = defaultdict(list)
    for index in sorted(range(len(kept)), key=lambda index: -kept[index].count):
        most_used[kept[index].op].append(index)
    return [kept[index] for index in sorted(index for indices in most_used.values() for index in indices[:most])]


def _predictions(cases: list[Case], boards: tuple[str, ...], engine: str, **mock: Any) -> Predictions:
    """What the real library says of every case, in both memories."""
    from ttmem.operators.case_program import recipe_of
    from ttmem.operators.pytest_files import MEMORIES, Predictions, recipes_of

    if engine == "none":
        return Predictions()
    asked = [(recipe.case, memory) for recipe in recipes_of(cases)[0] for memory in MEMORIES]
    recipes = [recipe_of(case, memory=memory) for case, memory in asked]
    outcomes: dict[str, dict[str, dict[str, str]]] = {}
    devices: dict[str, dict[str, tuple[int, int]]] = {}
    for board in boards:
        try:
            statuses, pools = statuses_on_mock(recipes, f"predicting on {board}", board=board, **mock)
        except MissingPartError as error:
            if engine == "mock":
                raise
            note(f"ttmem: outcomes are predicted from sizes alone: {error}", quiet=mock["quiet"])
            return Predictions()
        devices[board] = {memory: (pools[memory][0], pools[memory][2]) for memory in MEMORIES}
        for (case, memory), status in zip(asked, statuses, strict=True):
            outcomes.setdefault(case.id, {}).setdefault(board, {})[memory] = status
    return Predictions(outcomes, devices)
