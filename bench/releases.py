# SPDX-License-Identifier: Apache-2.0
"""What changed for memory from one ttnn release to the next: the same cases on the mock of each of them.

    ttmem device install --ttnn 0.78.0                  # for every release that shall be there
    python bench/releases.py --quick                    # the examples of the catalogue alone
    python bench/releases.py --cases cases.jsonl        # and a sample of a case file (--whole: all of it)
    python bench/releases.py --releases 0.80.0,0.81.1 --boards n150,p150
    python bench/releases.py --between 0.78.0           # that one only for the sample, and where its neighbours differ
    python bench/releases.py --write                    # renew docs/releases.md; --asks-nothing: with what is known

Cases are the examples of the catalogue and, of every operator of the 52 models (`ops_extract.py`, extracted once, or
`--cases`), some from the smallest to the largest; each with its tensors in DRAM and in L1, alone on an empty device.
The answers are kept (`--answers`), so that a second call asks only what is new. A release that is not installed is left
out, and that is said.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]

from mock_answers import Answers  # noqa: E402
from ttmem.base.formatting import flatten_text, format_count, format_shape_list  # noqa: E402
from ttmem.base.home import home_folder  # noqa: E402
from ttmem.engines.install import find_installed  # noqa: E402
from ttmem.failures.outcome import TIMEOUT, Outcome  # noqa: E402
from ttmem.hardware import RELEASES  # noqa: E402
from ttmem.operators.case import Case  # noqa: E402
from ttmem.operators.catalogue_entries import DEVICE, catalogue  # noqa: E402
from ttmem.operators.sweeps.comparison import CHANGES, NEEDS_LESS, NEEDS_MORE, Change, compare  # noqa: E402
from ttmem.operators.sweeps.plan import padded_tile_elements  # noqa: E402
from ttmem.operators.sweeps.result import Result  # noqa: E402
from ttmem.reports.kit.tables import Table, format_markdown  # noqa: E402
from twin_coverage import MEMORIES, Asked, asked_rows, find_cases  # noqa: E402

PAGE = ROOT / "docs" / "releases.md"
_BEGINS, _ENDS = "<!-- releases: written by bench/releases.py --write -->", "<!-- end of releases -->"
_STATUSES = ("pass", "oom", "clash", "overflow", "invalid", "unsupported", "timeout")
_PROGRAMS = "L1 with programs"
_MOST_LETTERS = 90


def sample(cases: Iterable[Case], each: int) -> list[Case]:
    """Of every operator so many, evenly from the smallest to the largest: the largest are those that fail."""
    ordered = sorted(cases, key=lambda case: (case.op, padded_tile_elements(case), case.id))
    chosen: list[Case] = []
    for _, group in groupby(ordered, key=lambda case: case.op):
        found = list(group)
        steps = min(each, len(found))
        chosen += [found[(len(found) - 1) * step // max(steps - 1, 1)] for step in range(steps)]
    return chosen


def examples() -> list[Case]:
    return [operator.example_case() for operator in catalogue().operators.values() if operator.support == DEVICE]


def results(rows: Sequence[Asked], answers: Answers, release: str) -> list[Result]:
    found = []
    for row in rows:
        outcome, _ = answers.find(replace(row.question, release=release))
        if outcome is not None:
            shapes = tuple(tensor.shape for tensor in row.case.tensors)
            found.append(
                Result(row.case.id, row.case.op, outcome, row.question.board, "mock", row.memory, "tile", shapes=shapes)
            )
    return found


def differing(rows: Sequence[Asked], answers: Answers, old: str, new: str) -> set[str]:
    """Keys of the questions that two releases answer differently: elsewhere one between them is like both of them,
    unless it took back at once what it changed."""
    found = set()
    for row in rows:
        first, second = (answers.find(replace(row.question, release=release))[0] for release in (old, new))
        if first and second and _seen(first) != _seen(second):
            found.add(row.question.key)
    return found


def _seen(outcome: Outcome) -> tuple[object, ...]:
    return outcome.status, dict(outcome.peak_bytes_per_bank), dict(outcome.l1_parts), outcome.l1_problem


def with_programs(before: Iterable[Result], after: Iterable[Result]) -> tuple[list[Result], list[Result], int]:
    """Both with what one core holds in L1, tensors and programs together; and how many could not be compared.

    That is where a release did not tell: it was not measured, or one of the two names no buffer at all of a program
    that has some in the other.
    """
    sides = [{result.place: result for result in side if result.outcome.l1_parts} for side in (before, after)]
    old, new = ({place: _static(result.outcome) for place, result in side.items()} for side in sides)
    both = [place for place in old if place in new]
    kept = [
        place for place in both
        if old[place] is not None and new[place] is not None and bool(old[place]) == bool(new[place])
    ]  # fmt: skip
    first, second = ([_in_l1(side[place]) for place in kept] for side in sides)
    return first, second, len(both) - len(kept)


def without_dips(by_release: dict[str, list[Result]]) -> dict[str, list[Result]]:
    """L1 with programs that is less in one release alone, and the same before and after it, is not believed: releases
    differ in what they tell of a program's buffers, and one that tells less needs no less."""
    tables = [{result.place: result for result in found} for found in by_release.values()]
    for before, here, after in zip(tables, tables[1:], tables[2:], strict=False):
        for place, result in here.items():
            first, middle, last = (
                sum(one[place].outcome.l1_parts.values()) if place in one else None for one in (before, here, after)
            )
            if first is not None and middle is not None and first == last and middle < first:
                doubtful = result.outcome._replace(l1_problem="this release alone tells less")
                here[place] = result._replace(outcome=doubtful)
    return {release: list(table.values()) for release, table in zip(by_release, tables, strict=True)}


def _static(outcome: Outcome) -> int | None:
    return None if outcome.l1_problem else sum(outcome.l1_parts.values()) - outcome.l1_parts["tensors"]


def _in_l1(result: Result) -> Result:
    total = {result.memory: sum(result.outcome.l1_parts.values())}
    return result._replace(outcome=result.outcome._replace(peak_bytes_per_bank=total))


def totals(by_release: dict[str, list[Result]]) -> Table:
    heads = ["ttnn", "asked", *_STATUSES, "other"]
    rows = []
    for release, found in by_release.items():
        counts = Counter(result.status for result in found)
        other = len(found) - sum(counts[status] for status in _STATUSES)
        rows.append([release, *(format_count(n) for n in (len(found), *(counts[s] for s in _STATUSES), other))])
    return Table.build(heads, rows, left=1)


Step = tuple[str, dict[str, list[Change]], list[int]]
"""Its name, changes by kind (those of L1 with programs have kinds of their own), how many were compared, and of how
many L1 with programs could not be."""


def steps(by_release: dict[str, list[Result]]) -> Iterator[Step]:
    """From each release to the next."""
    judged = {
        release: [result for result in found if result.status != TIMEOUT] for release, found in by_release.items()
    }  # a machine with other work makes one, not a release
    for (old, before), (new, after) in pairwise(judged.items()):
        first, second, unknown = with_programs(before, after)
        plain, programs = compare(before, after), compare(first, second)
        kinds: dict[str, list[Change]] = {kind: list(plain.count_kind(kind)) for kind in CHANGES}
        for kind in (NEEDS_MORE, NEEDS_LESS):
            kinds[f"{kind} {_PROGRAMS}"] = list(programs.count_kind(kind))
        yield f"{old} to {new}", kinds, [plain.compared, unknown]


def summary(found: Sequence[Step]) -> Table:
    kinds = list(found[0][1]) if found else []
    rows = [
        [step, format_count(compared), *(format_count(len(by[kind])) for kind in kinds), format_count(unknown)]
        for step, by, (compared, unknown) in found
    ]
    heads = ["step", "compared", *(kind.replace("-", " ") for kind in kinds), f"{_PROGRAMS} not known"]
    return Table.build(heads, rows, left=1)


def operators(by_kind: dict[str, list[Change]]) -> Table:
    """Of one step: every operator that changed, with the case that changed most."""
    rows = []
    for kind, changes in by_kind.items():
        by_operator: dict[str, list[Change]] = {}
        for change in changes:
            by_operator.setdefault(change.after.op, []).append(change)
        for op, group in sorted(by_operator.items(), key=lambda item: (-len(item[1]), item[0])):
            rows.append([kind.replace("-", " "), op, str(len(group)), *_worst(kind, group)])
    return Table.build(["change", "operator", "cases", "for example", "before", "after"], rows, left=2)


def _worst(kind: str, group: Sequence[Change]) -> tuple[str, str, str]:
    one = max(group, key=lambda change: (abs(change.growth_bytes_per_bank or 0), change.after.place))
    place = f"{' '.join(map(format_shape_list, one.after.shapes))[:_MOST_LETTERS]} in {one.after.memory}"
    if kind.startswith((NEEDS_MORE, NEEDS_LESS)):
        unit = "B per core" if kind.endswith(_PROGRAMS) else "B per bank"
        sides = (f"{format_count(side.peak_bytes_per_bank or 0)} {unit}" for side in (one.before, one.after))
    else:
        sides = (_ending(side) for side in (one.before, one.after))
    before, after = sides
    return place, before, after


def _ending(result: Result) -> str:
    words = flatten_text(result.message)
    return f"{result.status}: {words[:_MOST_LETTERS]}" if words and result.status != "pass" else result.status


def text(by_release: dict[str, list[Result]], about: str) -> str:
    found = list(steps(without_dips(by_release)))
    parts = [
        about,
        "",
        *format_markdown(totals(by_release), aligned=True),
        "",
        *format_markdown(summary(found), aligned=True),
    ]
    for step, by_kind, _ in found:
        table = operators(by_kind)
        if table.rows:
            parts += ["", f"### {step}", "", *format_markdown(table, markup=False)]
    return "\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--releases", help="default: all that are installed")
    parser.add_argument("--boards", default="n150", help="one after the other, with commas between")
    parser.add_argument("--cases", type=Path, help="a case file; default: those of the 52 models, extracted once")
    parser.add_argument("--each", type=int, default=4, help="cases of every operator")
    parser.add_argument("--whole", action="store_true", help="all cases of the file")
    parser.add_argument("--quick", action="store_true", help="the examples alone")
    parser.add_argument("--answers", type=Path, default=home_folder() / "cache" / "releases.sqlite")
    parser.add_argument("--between", default="", help="ask these for the sample, and where those beside them differ")
    parser.add_argument("--asks-nothing", action="store_true", help="of what is kept already")
    parser.add_argument("--write", action="store_true", help="renew docs/releases.md")
    options = parser.parse_args()
    known = sorted(RELEASES, key=lambda release: tuple(map(int, release.name.split("."))))
    wanted = options.releases.split(",") if options.releases else [release.name for release in known]
    there = [release for release in wanted if find_installed(release) is not None]
    if options.releases and len(there) < len(wanted):
        print(f"not installed: {', '.join(set(wanted) - set(there))} ('ttmem device install --ttnn VERSION')")
    if len(there) < 2:
        print("not measured: two releases are needed")
        return 0
    models = [] if options.quick else find_cases(options.cases)
    chosen = models if options.whole else sample(models, options.each)
    shown = examples()
    cases = list({case.id: case for case in (*shown, *chosen)}.values())
    parts = []
    with Answers(options.answers, is_measured=True) as answers:
        for board in options.boards.split(","):
            rows = list(asked_rows(cases, [board], MEMORIES))
            spared = set(options.between.split(",")) & set(there[1:-1])
            for release in [] if options.asks_nothing else sorted(there, key=lambda one: one in spared):
                wanted_rows = rows
                if release in spared:
                    place = there.index(release)
                    few = {case.id for case in (*shown, *sample(models, options.each))}
                    differ = differing(rows, answers, there[place - 1], there[place + 1])
                    wanted_rows = [row for row in rows if row.case.id in few or row.question.key in differ]
                answers.ask([replace(row.question, release=release) for row in wanted_rows])
            share = f"{len(chosen)} of {len(models)} cases of models"
            about = f"{len(cases)} cases ({len(shown)} examples of the catalogue, {share}) on a mock {board}, "
            about = f"## {board}\n\n{about}each with its tensors in DRAM and in L1."
            parts.append(text({release: results(rows, answers, release) for release in there}, about))
    table = "\n".join(parts)
    print(table)
    if options.write:
        before, _, rest = PAGE.read_text("utf-8").partition(_BEGINS)
        PAGE.write_text(f"{before}{_BEGINS}\n{table}{_ENDS}{rest.partition(_ENDS)[2]}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
