# SPDX-License-Identifier: Apache-2.0
"""What the twin knows of the calls of 52 models, and whether it is right: every case on the twin and on the mock.

    python bench/twin_coverage.py                          # n150 and p150, DRAM and L1
    python bench/twin_coverage.py --operation conv2d,matmul --limit 500
    python bench/twin_coverage.py --models vit,swin,llama
    python bench/twin_coverage.py --before ../old/src      # also what the twin of another checkout knew
    python bench/twin_coverage.py --asks-nothing           # with the mock's kept answers alone
    python bench/twin_coverage.py --before ../old/src --data   # renew docs/twin.md and what 'ttmem ops map' shows

The share is of the models' calls: a case that a model calls twelve times counts twelve times. A row that the twin calls
exact must say what the mock says: status, figures of the failure, peaks, results with their addresses, static buffers.
A bounded one must not say more than the mock nor pass where it fails. Exit 1 on any difference.

The mock's answers are kept (`--answers`, one SQLite file), so that after a change of a rule only the twin is asked. The
cases are those of `ops_extract.py`: without `--cases` they are extracted once, which needs torch and the packages of
the models.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [os.environ.get("TTMEM_COVERAGE_SOURCE") or str(ROOT / "src"), str(ROOT / "bench")]

import ops_extract  # noqa: E402
from mock_answers import RESULT_KEYS, Answers, Question  # noqa: E402
from ttmem.base.home import home_folder  # noqa: E402
from ttmem.engines.engine import EngineSettings  # noqa: E402
from ttmem.engines.twin import TwinEngine  # noqa: E402
from ttmem.failures.outcome import Outcome  # noqa: E402
from ttmem.operators.bound_case import CannotRunError  # noqa: E402
from ttmem.operators.case import Case, read_cases  # noqa: E402
from ttmem.operators.case_program import CaseProgram, lower_case  # noqa: E402
from ttmem.operators.sweeps.plan import DEFAULT_L1_SMALL_BYTES, padded_tile_elements  # noqa: E402

DATA = ROOT / "src" / "ttmem" / "operators" / "catalogue_data" / "model_calls.toml"
PAGE = ROOT / "docs" / "twin.md"
_TABLE_BEGINS, _TABLE_ENDS = "<!-- coverage: written by bench/twin_coverage.py --data -->", "<!-- end of coverage -->"
BOARDS, MEMORIES = ("n150", "p150"), ("DRAM", "L1")
LEVELS = ("exact", "bounded", "unknown")
GOAL_PERCENT = 95.0
_NO_WORK = "(no call)"
_SHOWN_DIFFERENCES = 40


@dataclass(slots=True)
class Known:
    """Of one operation: calls by level, rows by level, what went wrong."""

    calls: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    """Rows that the mock answered too, by level."""
    not_judged: int = 0
    differences: int = 0
    broken_bounds: int = 0
    doubts: Counter[str] = field(default_factory=Counter)
    """Why rows are not exact, by calls."""

    def share(self, level: str = "exact") -> float:
        return 100 * self.calls[level] / max(sum(self.calls.values()), 1)


@dataclass(frozen=True, slots=True)
class Asked:
    """One row: a case on one board and in one memory."""

    case: Case
    recipe: CaseProgram
    question: Question
    memory: str

    @property
    def operation(self) -> str:
        """The call, or the calls that stand for one."""
        return " + ".join(str(step["call"]).removeprefix("ttnn.") for step in self.recipe.steps if "call" in step)


def asked_rows(cases: Iterable[Case], boards: Sequence[str], memories: Sequence[str]) -> Iterator[Asked]:
    """Every case that has a call on the device, small ones first."""
    for board in boards:
        for case in sorted(cases, key=padded_tile_elements):
            for memory in memories:
                try:
                    recipe = lower_case(case, memory=memory)
                except CannotRunError:
                    continue
                yield Asked(case, recipe, Question(board, recipe.steps, DEFAULT_L1_SMALL_BYTES), memory)


def twin_outcomes(rows: Sequence[Asked]) -> Iterator[Outcome]:
    """Equal questions are asked once."""
    engines: dict[str, TwinEngine] = {}
    known: dict[str, Outcome] = {}
    for row in rows:
        board, key = row.question.board, row.question.key + str(row.recipe.described_steps[-1].get("makes"))
        if key not in known:
            if board not in engines:
                engines[board] = TwinEngine(EngineSettings(board=board, l1_small_bytes=DEFAULT_L1_SMALL_BYTES))
            known[key] = engines[board].ask(row.recipe.described_steps, stop=True)
        yield known[key]


def differences(twin: Outcome, mock: Outcome, measured: bool) -> list[str]:
    """What the twin says exactly and the mock otherwise."""
    found = [
        f"{name} {getattr(twin, name)} != {getattr(mock, name)}"
        for name in ("status", "memory", "needed_bytes", "bytes_per_bank")
        if getattr(twin, name) != getattr(mock, name)
    ]
    # How far a call that is refused came before that is nobody's concern.
    peaks = {} if twin.status == mock.status == "invalid" else twin.peak_bytes_per_bank
    for memory, peak in peaks.items():
        if mock.peak_bytes_per_bank.get(memory, 0) != peak:
            found.append(f"peak of {memory} {peak} != {mock.peak_bytes_per_bank.get(memory, 0)}")
    told = [
        {name: one[name] for name in RESULT_KEYS if name in one}
        for answer in twin.answers
        for one in answer.get("results", ())
    ]
    real = [one for answer in mock.answers for one in answer.get("results", ())]
    if twin.ok and mock.ok and told != real:
        found.append(f"results {told} != {real}")
    if measured and twin.ok and mock.ok and not mock.l1_problem:
        told_parts, real_parts = _parts(twin), _parts(mock)
        more = {name: told_parts[name] - real_parts[name] for name in told_parts}
        is_same_moment = all(0 <= more[name] <= _most_gaps(name) for name in more)
        # Gaps alone may make another moment the fullest: then the sums are near each other.
        if not is_same_moment and not 0 <= sum(more.values()) <= _MOST_GAPS:
            found.append(f"L1 {told_parts} != {real_parts}")
    return found


_MOST_GAPS = 4 * 32
"""The worker adds up the sizes of static buffers, the twin says where they end: buffers begin at multiples of 64 on
Blackhole, which leaves gaps. (Where they end is compared too: a clash names it.)"""


def _most_gaps(part: str) -> int:
    return 0 if part == "tensors" else _MOST_GAPS


def _parts(outcome: Outcome) -> dict[str, int]:
    """The twin does not tell scratchpads from dataflow buffers: they lie in one stack."""
    parts = dict(outcome.l1_parts)
    scratchpads = parts.pop("scratchpads", 0)
    return {**parts, "dataflow_buffers": parts.get("dataflow_buffers", 0) + scratchpads}


def broken_bounds(twin: Outcome, mock: Outcome, measured: bool) -> list[str]:
    """What is not even a bound: a pass that fails, a failure that passes, a lower bound above the truth."""
    if twin.ok and mock.status in ("oom", "clash", "overflow"):
        return [f"passes, but {mock.status}: {mock.message[:90]}"]
    if twin.is_memory_failure and mock.ok:
        return [f"{twin.status}, but passes: {twin.message[:90]}"]
    if twin.is_failure or not mock.ok:
        return []
    found = [
        f"peak of {memory} {peak} > {mock.peak_bytes_per_bank.get(memory, 0)}"
        for memory, peak in twin.peak_bytes_per_bank.items()
        if peak > mock.peak_bytes_per_bank.get(memory, 0)
    ]
    if measured and not mock.l1_problem and sum(twin.l1_parts.values()) > sum(mock.l1_parts.values()):
        found.append(f"L1 with programs {sum(twin.l1_parts.values())} > {sum(mock.l1_parts.values())}")
    return found


class Coverage:
    """The figures of one twin over all rows."""

    def __init__(self) -> None:
        self.operations: dict[str, Known] = {}
        self.operators: dict[str, Known] = {}
        """By aten name."""
        self.by_place: dict[str, Known] = {}
        self.told: list[str] = []
        self.twin_seconds = 0.0

    def add(self, row: Asked, twin: Outcome, mock: Outcome | None, measured: bool) -> None:
        place = f"{row.question.board} {row.memory}"
        level, calls = twin.confidence, row.case.count
        wrong: list[str] = []
        if mock is not None and mock.status not in ("timeout", "crash"):
            wrong = (differences if level == "exact" else broken_bounds)(twin, mock, measured)
        for known in (
            self.operations.setdefault(row.operation or _NO_WORK, Known()),
            self.operators.setdefault(row.case.op, Known()),
            self.by_place.setdefault(place, Known()),
        ):
            known.calls[level] += calls
            known.rows[level] += 1
            known.compared[level] += mock is not None
            known.not_judged += calls * twin.message.startswith("not judged")
            known.differences += bool(wrong) and level == "exact"
            known.broken_bounds += bool(wrong) and level != "exact"
            if level != "exact":
                known.doubts[twin.doubt] += calls
        self.told += [f"{level} {row.case.id} {place} {row.operation}: {one}" for one in wrong[:1]]

    @property
    def total(self) -> Known:
        total = Known()
        for known in self.by_place.values():
            for counter in ("calls", "rows", "compared", "doubts"):
                getattr(total, counter).update(getattr(known, counter))
            for figure in ("not_judged", "differences", "broken_bounds"):
                setattr(total, figure, getattr(total, figure) + getattr(known, figure))
        return total

    def to_json(self) -> dict[str, Any]:
        def plain(known: Known) -> dict[str, Any]:
            return {
                "calls": {level: known.calls[level] for level in LEVELS},
                "rows": {level: known.rows[level] for level in LEVELS},
                "compared_rows": {level: known.compared[level] for level in LEVELS},
                "exact_percent": round(known.share(), 2),
                "not_judged_calls": known.not_judged,
                "differences": known.differences,
                "broken_bounds": known.broken_bounds,
                "doubts": dict(known.doubts.most_common(5)),
            }

        def by_calls(found: dict[str, Known]) -> dict[str, Any]:
            ordered = sorted(found.items(), key=lambda item: (-sum(item[1].calls.values()), item[0]))
            return {name: plain(known) for name, known in ordered}

        return {
            "total": plain(self.total),
            "places": {place: plain(known) for place, known in self.by_place.items()},
            "operations": by_calls(self.operations),
            "operators": by_calls(self.operators),
            "told": self.told,
            "twin_seconds": round(self.twin_seconds, 2),
        }


def markdown(now: dict[str, Any], before: dict[str, Any] | None, places: int) -> str:
    """The table of the documentation: per operation the models' calls (of one board and memory) and their shares."""
    head = "| operation | calls | exact | bounded | unknown | rows compared | differences |"
    columns = ["|---|--:|--:|--:|--:|--:|--:|"]
    if before:
        head, columns = f"{head} exact before |", [columns[0] + "--:|"]
    lines = [head, *columns]
    for name, known in [("**all**", now["total"]), *now["operations"].items()]:
        calls = known["calls"]
        all_calls = max(sum(calls.values()), 1)
        percent = [f"{100 * calls[level] / all_calls:.1f} %" for level in LEVELS]
        compared = sum(known["compared_rows"].values())
        wrong = known["differences"] + known["broken_bounds"]
        line = f"| {name} | {all_calls // places:,} | {' | '.join(percent)} | {compared:,} | {wrong} |"
        if before:
            was = before["total"] if name == "**all**" else before["operations"].get(name)
            line += f" {was['exact_percent']:.1f} % |" if was else " |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def renew_page(table: str) -> None:
    """The table of docs/twin.md between its marks."""
    before, _, rest = PAGE.read_text("utf-8").partition(_TABLE_BEGINS)
    _, _, after = rest.partition(_TABLE_ENDS)
    PAGE.write_text(f"{before}{_TABLE_BEGINS}\n{table}{_TABLE_ENDS}{after}", "utf-8")


def data(now: dict[str, Any], models: int) -> str:
    """What `ttmem ops map` and the documentation show: exact, bounded and unknown calls, summed over the places."""

    def calls(known: dict[str, Any]) -> str:
        return f"[{', '.join(str(known['calls'][level]) for level in LEVELS)}]"

    total = now["total"]
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        "# What the twin knows of the calls that models make: exact, bounded and unknown ones, summed over the places.",
        "# Written by `python bench/twin_coverage.py --data`, which also compares every case with the mock.",
        "",
        f"models = {models}",
        f"compared_rows = {sum(total['compared_rows'].values())}",
        f"differences = {total['differences'] + total['broken_bounds']}",
    ]
    for table in ("places", "operators", "operations"):
        lines += ["", f"[{table}]"]
        lines += [f'"{name}" = {calls(known)}' for name, known in now[table].items() if name != _NO_WORK]
    return "\n".join(lines) + "\n"


def measure(rows: Sequence[Asked], answers: Answers | None) -> Coverage:
    coverage = Coverage()
    started = time.process_time()
    outcomes = list(twin_outcomes(rows))
    coverage.twin_seconds = time.process_time() - started
    for row, twin in zip(rows, outcomes, strict=True):
        mock, measured = answers.find(row.question) if answers else (None, False)
        coverage.add(row, twin, mock, measured)
    return coverage


def of_another_checkout(source: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """The same rows on the twin of another tree, in a process that imports that one."""
    environment = {**os.environ, "TTMEM_COVERAGE_SOURCE": str(source.resolve())}
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, __file__, *arguments, "--asks-nothing", "--json", "-"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if told.returncode not in (0, 1):
        raise SystemExit(told.stderr)
    return dict(json.loads(told.stdout))


def chosen(cases: Sequence[Case], options: argparse.Namespace) -> list[Case]:
    """By model; an operation is chosen by row."""
    if not options.models:
        return list(cases)
    wanted = [name.lower().replace("_", "") for name in options.models.split(",")]
    return [
        case
        for case in cases
        if any(name in model.lower().replace("_", "") for model in case.models for name in wanted)
    ]


def find_cases(given: Path | None) -> list[Case]:
    path = given or home_folder() / "cache" / "twin-coverage" / "models.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, str(ROOT / "bench" / "ops_extract.py"), "--cases", str(path)], check=True)
    return read_cases(path)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The twin's coverage of the calls of models, checked on the mock.")
    parser.add_argument("--cases", type=Path, help="a case file; default: those of the 52 models, extracted once")
    parser.add_argument("--answers", type=Path, help="where the mock's answers are kept")
    parser.add_argument("--boards", default=",".join(BOARDS))
    parser.add_argument("--memories", default=",".join(MEMORIES))
    parser.add_argument("--operation", default="", help="ttnn operations, with commas; all but these: '-reshape,...'")
    parser.add_argument("--models", default="", help="parts of models' names, with commas")
    parser.add_argument("--limit", type=int, help="at most so many rows")
    parser.add_argument("--each", type=int, help="at most so many rows of each operation")
    parser.add_argument("--asks-nothing", action="store_true", help="do not ask the mock what it was never asked")
    parser.add_argument("--measure", action="store_true", help="ask the mock for static buffers too: some times slower")
    parser.add_argument("--before", type=Path, help="the src folder of another checkout to compare with, or its --json")
    parser.add_argument("--json", help="write the figures there ('-': stdout)")
    parser.add_argument("--markdown", type=Path, help="write the table there")
    parser.add_argument("--data", action="store_true", help="renew the data that 'ttmem ops map' and the docs show")
    parser.add_argument("--most", type=int, default=_SHOWN_DIFFERENCES, help="how many differences are printed")
    return parser.parse_args(arguments)


def _grouped(rows: Sequence[Asked]) -> list[tuple[str, list[Asked]]]:
    groups: dict[str, list[Asked]] = {}
    for row in rows:
        groups.setdefault(row.operation, []).append(row)
    return list(groups.items())


def _spread(rows: Sequence[Asked], most: int) -> list[Asked]:
    """So many of them, evenly over all sizes, boards and memories."""
    return [rows[number * len(rows) // most] for number in range(most)] if most < len(rows) else list(rows)


def main() -> int:
    options = parse()
    boards, memories = options.boards.split(","), options.memories.split(",")
    cases = chosen(find_cases(options.cases), options)
    rows = list(asked_rows(cases, boards, memories))
    if options.operation:
        wanted = {name.removeprefix("ttnn.") for name in options.operation.removeprefix("-").split(",")}
        is_wanted = not options.operation.startswith("-")
        rows = [row for row in rows if bool(wanted & set(row.operation.split(" + "))) == is_wanted]
    if options.each is not None:
        rows = [row for _, group in _grouped(rows) for row in _spread(group, options.each)]
    if options.limit is not None:
        rows = _spread(rows, options.limit)
    kept = options.answers or home_folder() / "cache" / "twin-coverage" / "answers.sqlite"
    with Answers(kept, is_measured=options.measure) as answers:
        if not options.asks_nothing:
            answers.ask([row.question for row in rows])
        coverage = measure(rows, answers)
    now = coverage.to_json()
    before = None
    if options.before:
        same = [word for word in sys.argv[1:] if not word.startswith("--before") and word != str(options.before)]
        if options.before.is_file():
            before = json.loads(options.before.read_text("utf-8"))
        else:
            before = of_another_checkout(options.before, same)
        now["before"] = {name: before[name] for name in ("total", "places", "operations", "twin_seconds")}
    if options.data:
        DATA.write_text(data(now, len({name for name, _ in ops_extract.jobs()})), "utf-8")
        if before:
            renew_page(markdown(now, before, len(boards) * len(memories)))
    if options.json == "-":
        print(json.dumps(now))
    else:
        show(now, before, len(boards) * len(memories), options)
    return int(bool(now["told"]))


def show(now: dict[str, Any], before: dict[str, Any] | None, places: int, options: argparse.Namespace) -> None:
    if options.json:
        Path(options.json).write_text(json.dumps(now, indent=1) + "\n", "utf-8")
    table = markdown(now, before, places)
    if options.markdown:
        options.markdown.write_text(table, "utf-8")
    print(table)
    for name, known in now["places"].items():
        print(f"{name:10} exact {known['exact_percent']:.2f} % of the calls", known["calls"])
    for line in now["told"][: options.most]:
        print("DIFFERENT", line[:600])
    if len(now["told"]) > options.most:
        print(f"... {len(now['told']) - options.most} more")
    total = now["total"]
    print(
        f"{sum(total['rows'].values()):,} rows, {sum(total['compared_rows'].values()):,} compared; exact "
        f"{total['exact_percent']:.2f} % of the calls (goal {GOAL_PERCENT:g} %); {total['differences']} differences, "
        f"{total['broken_bounds']} broken bounds; twin {now['twin_seconds']} s"
    )


if __name__ == "__main__":
    sys.exit(main())
