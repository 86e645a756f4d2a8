# SPDX-License-Identifier: Apache-2.0
"""``python -m fuzz N``: N hostile inputs through the command line; what fails is kept with the command for it."""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import Queue

from fuzz.children import Child, Limits, Ran
from fuzz.kind import ROOT, Kind
from fuzz.mutations import mutated
from fuzz.patterns import LINES, draw
from fuzz.sources import kinds

KEPT = ROOT / ".cache" / "fuzz"
_LIMITS = Limits(cpu_seconds=20, wall_seconds=240.0)
_MOST_SECONDS, _MOST_BYTES = 6.0, 500 << 20
_BATCH = 50
_PATTERN_BYTES = (2_000, 20_000, 200_000)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_FAULT_OF_OURS = re.compile(rb"\b(?:Attribute|Type|Key|Index|ZeroDivision|Recursion|Assertion|UnboundLocal)Error\b")
_TEXT_COMMANDS_HIDE = ("--json", "--html", "--to ")


@dataclass(frozen=True, slots=True)
class Case:
    """One input and the command line that reads it; both follow from the seed."""

    seed: int
    kind: Kind
    content: bytes
    command: str


def cases(first_seed: int, sources: list[Kind]) -> Iterator[Case]:
    """Endlessly."""
    logs = [kind for kind in sources if kind.ending in (".log", ".mlir")] or sources
    seed = first_seed
    while True:
        chance = random.Random(seed)
        kind = chance.choice(sources)
        if chance.random() < 0.25:
            kind = chance.choice(logs)
            content = draw(chance).text(chance.choice(_PATTERN_BYTES))
            if chance.random() < 0.3:
                content = kind.content[: chance.randrange(20_000)] + content
        elif chance.random() < 0.1:
            lines = (chance.choice(LINES).format(i=chance.randrange(9), n=chance.randrange(9)) for _ in range(60))
            content = mutated(chance, "\n".join(lines).encode())
        else:
            content = kind.change(chance, kind.content)
        yield Case(seed, kind, content, chance.choice(kind.commands))
        seed += 1


def warm(child: Child, sources: list[Kind]) -> None:
    """Every command line once, on a valid source: what it loads takes longer than nearly every input does."""
    samples = {command: kind for kind in sources for command in kind.commands}
    lines = []
    for number, (command, kind) in enumerate(samples.items()):
        folder = child.folder / f"warm{number}"
        lines.append(words(command, kind.written(kind.content, folder), folder))
    child.warm(lines)


def words(command: str, path: Path, folder: Path) -> list[str]:
    """The command line, with the input in its place."""
    return [word.replace("{}", str(path)).replace("{dir}", str(folder)) for word in command.split()]


def judge(case: Case, ran: Ran) -> str:
    """What is wrong, empty when nothing is."""
    if b"Traceback (most recent call last)" in ran.err:
        return "traceback"
    if b"internal error" in ran.err:
        return "internal error"
    if (found := _FAULT_OF_OURS.search(ran.err + ran.out)) and found[0] not in case.kind.content + case.content:
        return f"told as {found[0].decode()}"
    if ran.cpu_seconds > _MOST_SECONDS or ran.code in (-9, -14, -24):
        return f"time: {ran.cpu_seconds:.1f} s"
    if ran.code not in (0, 1, 2, 3):
        return f"exit code {ran.code}"
    if ran.peak_bytes > _MOST_BYTES:
        return f"memory: {ran.peak_bytes >> 20} MiB"
    shown = ran.err if any(mark in case.command for mark in _TEXT_COMMANDS_HIDE) else ran.out + b"\n" + ran.err
    if control := _CONTROL.search(shown.decode("utf-8", "surrogateescape")):
        return f"control character {control[0]!a}"
    return ""


def run(case: Case, child: Child) -> tuple[Ran, str]:
    """One case in a folder of its own."""
    folder = child.folder / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    ran = child.run(words(case.command, case.kind.written(case.content, folder), folder), limits=_LIMITS)
    return ran, judge(case, ran)


def keep(case: Case, ran: Ran, what: str) -> Path:
    """The input, and beside it how it failed."""
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{case.seed}{case.kind.ending}"
    path.write_bytes(case.content)
    path.with_name(path.name + ".txt").write_text(
        f"{what}\nttmem {case.command.replace('{}', path.name)}\nkind {case.kind.name}, seed {case.seed}, exit "
        f"{ran.code}, {ran.cpu_seconds:.2f} s CPU, {ran.peak_bytes >> 20} MiB\n\n"
        f"{ran.err[-2000:].decode('utf-8', 'replace')}\n"
    )
    return path


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("inputs", type=int)
    parser.add_argument("--seed", type=int, default=0, help="of the first input")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--nice", type=int, default=10)
    parser.add_argument("--only", default="", help="sources whose name has this in it")
    asked = parser.parse_args()
    started, failed, ends = time.monotonic(), Counter[str](), Counter[int]()
    slowest, largest, done = 0.0, 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sources = [kind for kind in kinds(folder) if asked.only in kind.name]
        pending = cases(asked.seed, sources)
        children = [Child(folder / str(number), nice=asked.nice) for number in range(asked.workers)]
        free: Queue[Child] = Queue()
        for child in children:
            warm(child, sources)
            free.put(child)

        def run_free(case: Case) -> tuple[Case, Ran, str]:
            child = free.get()
            try:
                return case, *run(case, child)
            finally:
                free.put(child)

        with ThreadPoolExecutor(asked.workers) as pool:
            while batch := list(islice(pending, min(_BATCH, asked.inputs - done))):
                for case, ran, what in pool.map(run_free, batch):
                    ends[ran.code] += 1
                    slowest, largest = max(slowest, ran.cpu_seconds), max(largest, ran.peak_bytes)
                    if what:
                        failed[what.partition(":")[0]] += 1
                        print(f"{what}: {keep(case, ran, what).name}: {case.command}", flush=True)
                done += len(batch)
                if not done % (20 * _BATCH):
                    print(f"{done:,} inputs, {sum(failed.values())} failures", file=sys.stderr, flush=True)
        for child in children:
            child.__exit__()
    print(
        f"{done:,} inputs of {len(sources)} sources in {time.monotonic() - started:.0f} s; exit codes "
        f"{dict(sorted(ends.items()))}; slowest {slowest:.1f} s CPU, largest {largest >> 20} MiB; "
        f"failures: {dict(failed) or 'none'}" + (f", kept in {KEPT.relative_to(ROOT)}" if failed else "")
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
