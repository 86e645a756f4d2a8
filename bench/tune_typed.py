# SPDX-License-Identifier: Apache-2.0
"""Type what ``ttmem tune`` prints: does the script run to its former end, with the promised peak?

    python bench/tune_typed.py [SCRIPT...] [--models CHECKOUT] [--random 24] [--board n150] [--python PATH]
                               [--work FOLDER]

Each SCRIPT (a tutorial or demo, copied to FOLDER), each model of tt-metal that ``tune_models.py`` drives and each
random program is captured on a mock board and tuned twice: without a target, and for half of its DRAM peak. Then each
edit is made alone as it is printed (its ``code`` inserted after its ``location``, else its hunk applied), and the
script runs again; so does the script with the whole patch. FOLDER/rows.jsonl keeps the rows: a second call goes on
where the first one ended. A script that ran out of memory may come further, or to its end; the promise is for all
until the call that failed has ended.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "bench")]

import ttmem  # noqa: E402
from support.typed_programs import script  # noqa: E402
from ttmem.commands.tune import Tuned  # noqa: E402
from ttmem.commands.whatif import WhatIf  # noqa: E402
from ttmem.engines.run_script import RunSettings, ScriptRun, run_script  # noqa: E402
from ttmem.reports.tune import TunedEdit  # noqa: E402
from ttmem.tuning.captured_run import read_captured_run  # noqa: E402
from ttmem.tuning.edited_run import (  # noqa: E402
    BOUNDED,
    UNKNOWN,
    start_edits,
)
from ttmem.tuning.figures import Figures, compute_figures  # noqa: E402
from ttmem.tuning.verify import find_certainty, is_further  # noqa: E402
from tune_real import DRIVER, digits, models  # noqa: E402

HEAD = "| script | operations | edits | changes printed | runs to its former end | peak as promised | whole patch |"
_ENDS = "ends with status"
_PROGRAMS = 4
"""In one random script."""


def peaks(found: Figures) -> tuple[int, int]:
    """DRAM and L1."""
    return found.dram_peak_bytes_per_bank, found.l1_peak_bytes_per_bank


class Typed:
    """One script in the current folder, and the files next to it that it imports."""

    def __init__(self, command: Sequence[str], python: str | None, board: str) -> None:
        self.command, self.python, self.board = command, python, board
        self.nowhere = os.open(os.devnull, os.O_WRONLY)
        self.sources = {path: path.read_bytes() for path in Path().glob("*.py")}

    def run(self) -> ScriptRun:
        settings = RunSettings(python=self.python, board=self.board, measure_programs=False, timeout_seconds=300)
        script, *arguments = self.command
        return run_script(script, arguments, settings=settings, output=self.nowhere)

    def row(self) -> dict[str, object]:
        first = self.run()
        count = sum(map(len, first.profile.timelines))
        try:
            dram, _ = peaks(compute_figures(start_edits(read_captured_run(first.profile))))
        except ttmem.TtmemError as error:
            return {"operations": 0, "skipped": str(error)}
        if not count:
            return {"operations": 0, "skipped": f"{_ENDS} {first.status} before any operation"}
        answers = [ttmem.tune(first.profile), ttmem.tune(first.profile, max_dram=f"{max(dram // 2, 1)}B")]
        printed = {one.edit: one for answer in answers for one in answer.document().edits}
        changes = {edit: one for edit, one in printed.items() if one.hunk}
        wrong: list[str] = []
        ended = kept = 0
        for edit, one in changes.items():
            promise = ttmem.whatif(first.profile, [edit])  # while the source is still the captured one
            self.type(one)
            difference = self.difference(first, promise)
            ended += not difference.startswith(_ENDS)
            kept += not difference
            if difference:
                wrong.append(f"{edit}: {difference}")
        patched = [self.patched(answer, first) for answer in answers]
        return {
            "operations": count,
            "status": first.status,
            "edits": len(printed),
            "changes": len(changes),
            "ended": ended,
            "kept": kept,
            "patched": ", ".join(dict.fromkeys(patched)),
            "wrong": wrong,
        }

    def type(self, edit: TunedEdit) -> None:
        """Insert the lines that are printed, or make the change that is printed as a hunk."""
        name, _, line = edit.location.rpartition(":")
        if edit.code is not None:
            lines = Path(name).read_bytes().decode().splitlines(keepends=True)
            lines.insert(int(line), f"{edit.code}\n")
            Path(name).write_bytes("".join(lines).encode())
        else:
            apply(f"--- a/{name}\n+++ b/{name}\n{edit.hunk}\n")

    def difference(self, first: ScriptRun, promise: WhatIf) -> str:
        """Run what was changed: what is not as before or as promised; empty when nothing is."""
        again = self.run()
        for path, text in self.sources.items():
            path.write_bytes(text)
        if again.status not in (first.status, 0):
            return f"{_ENDS} {again.status}"
        before, run = read_captured_run(first.profile), read_captured_run(again.profile)
        got, promised = peaks(compute_figures(start_edits(run))), peaks(promise.after)
        if before.is_short and is_further(before, run):  # what comes after the call that failed was not known
            whole = before.unfinished is not None and before.unfinished.is_known
            last = len(before.operations) - 1
            got, promised = (one.peaks_until(last, inclusive=whole)[:2] for one in (start_edits(run), promise.draft))
        confidence = find_certainty(promise.applied)
        is_less = all(one <= other for one, other in zip(got, promised, strict=True))
        is_kept = got == promised or confidence == UNKNOWN or (confidence == BOUNDED and is_less)
        return "" if is_kept else f"{got} B, not {promised} B"

    def patched(self, answer: Tuned, first: ScriptRun) -> str:
        """The script with all of the patch."""
        found = answer.patch()
        if not found.text:
            return "empty"
        edits = [one.edit for one in answer.applied if str(one.edit) not in found.left_out]
        promise = ttmem.whatif(first.profile, edits)
        apply(found.text)
        return self.difference(first, promise) or "as promised"


def apply(diff: str) -> None:
    """In the current folder."""
    Path("tune.diff").write_bytes(diff.encode())
    subprocess.run(["patch", "-p1", "-i", "tune.diff"], check=True, capture_output=True)


def written(name: str, row: dict[str, object]) -> str:
    """A line of the table."""
    if not row.get("operations"):
        return f"| {name} | 0 | - | - | - | - | {row['skipped']} |"
    cells = (row[key] for key in ("operations", "edits", "changes", "ended", "kept", "patched"))
    return f"| {name} | {' | '.join(map(str, cells))} |"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", type=Path)
    parser.add_argument("--models", type=Path, metavar="CHECKOUT", help="the models that tune_models.py drives")
    parser.add_argument("--random", type=int, default=24, help="random programs besides (default: 24)")
    parser.add_argument("--python")
    parser.add_argument("--board", default="n150")
    parser.add_argument("--work", type=Path)
    options = parser.parse_args(words)
    work = (options.work or Path(tempfile.mkdtemp(prefix="tune-typed-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    kept = work / "rows.jsonl"
    rows = dict(json.loads(line) for line in kept.read_text().splitlines()) if kept.exists() else {}
    programs = {path.name: [path.resolve()] for path in options.scripts}
    commands = {name: [name] for name in programs}
    if options.models is not None:
        checkout = options.models.resolve()
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(checkout))))
        for model, file in models().items():
            name = f"{model} ({Path(file).name})"
            programs[name], commands[name] = [DRIVER, checkout / file], [DRIVER.name, model]
    for number in range(options.random):
        programs[f"random {number}"], commands[f"random {number}"] = [], ["program.py"]
    print(HEAD, "|---" * HEAD.count(" | ") + "|---|", sep="\n")
    for name, files in programs.items():
        if name not in rows:
            folder = work / name.replace(" ", "-")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            os.chdir(folder)
            for file in files:
                shutil.copy(file, file.name)
            if not files:
                Path("program.py").write_text(script(random.Random(int(name.split()[1])), _PROGRAMS))
            if any("mnist" in file.name for file in files):
                digits(Path("data/MNIST/raw"))
            rows[name] = Typed(commands[name], options.python, options.board).row()
            with kept.open("a") as journal:
                journal.write(json.dumps([name, rows[name]]) + "\n")
        print(written(name, rows[name]), flush=True)
        for edit in rows[name].get("wrong", ()):
            print(f"  wrong: {edit}", file=sys.stderr)
    done = [row for row in rows.values() if row.get("operations")]
    sums = [sum(int(row[key]) for row in done) for key in ("operations", "edits", "changes", "ended", "kept")]
    print(f"| {len(done)} scripts | {' | '.join(map(str, sums))} | |")
    return 0 if sums[2] == sums[4] else 1


if __name__ == "__main__":
    raise SystemExit(main())
