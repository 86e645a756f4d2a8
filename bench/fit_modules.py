# SPDX-License-Identifier: Apache-2.0
"""Plays every TTNN module below some folders, and counts what comes of it.

    python bench/fit_modules.py FOLDER... [--engine twin] [--engine mock] [--least 300] [--docs]

Every function of every module that could be run by itself is one prediction, on a mock board of the architecture that
the module was compiled for. ``--docs`` writes the tables into docs/compiled-modules.md; those with ``--least``
operations or more get a row of their own. Fetch the modules yourself; none is part of this repository.
"""

import argparse
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ttmem import TtmemError
from ttmem.engines.engine import Engine
from ttmem.prediction.compiled import build_module_stream
from ttmem.prediction.request import Prediction, Request
from ttmem.prediction.run_stream import open_for_request, predict_stream
from ttmem.readers.mlir.functions import read_modules

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "compiled-modules.md"
BOARDS = {"blackhole": "p150"}
_BEGIN, _END = "<!-- fit_modules begin -->", "<!-- fit_modules end -->"
_MARK = re.compile(rb'"ttnn\.\w+"\(')
_HASH = re.compile(r"__[0-9a-f]{8}(?=\.\w+$)")


@dataclass
class Count:
    """What came of all functions on one engine."""

    functions: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)


def requests(folders: list[Path]) -> Iterator[tuple[Path, bytes, Request] | tuple[Path, str]]:
    """One per function, or why a file gives none."""
    files = sorted({file for folder in folders for file in folder.rglob("*") if file.suffix in (".mlir", ".log")})
    for file in files:
        text = file.read_bytes()
        if not _MARK.search(text):
            continue
        try:
            modules = read_modules(text, file.name)
        except TtmemError as error:
            yield file, error.message
            continue
        for graph, module in enumerate(modules):
            board = BOARDS.get(module.architecture, "n150")
            for entry in module.entries:
                settings = {"graph": graph, "function": entry.name}
                yield file, text, Request(file.name, board, settings=settings)


def outcome(found: Prediction) -> str:
    """One word for a prediction."""
    if not found.fits:
        kind = str((found.profile.to_json()["failure"] or {}).get("class"))
        return "does not fit" if kind.startswith(("oom", "buffers")) else "refused"
    counts = found.operations
    return "exact" if not counts.bounded + counts.unknown else "with bounds"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--engine", action="append", choices=["twin", "mock"])
    parser.add_argument("--least", type=int, default=300)
    parser.add_argument("--docs", action="store_true")
    asked = parser.parse_args()
    engines = asked.engine or ["twin", "mock"]
    counts = {name: Count() for name in engines}
    not_read: Counter[str] = Counter()
    rows: list[str] = []
    with ExitStack() as stack:
        open_engines: dict[tuple[str, str], Engine] = {}
        for made in requests(asked.folders):
            if len(made) == 2:
                not_read[str(made[1])] += 1
                continue
            file, text, request = made
            large: list[str] = []
            for name in engines:
                key = name, request.board
                asking = Request(request.target, request.board, engine=name, settings=request.settings)
                if key not in open_engines:
                    open_engines[key] = stack.enter_context(open_for_request(asking))
                large += one(counts[name], file, text, asking, open_engines[key], asked.least)
            if large:
                rows.append(f"| `{_HASH.sub('', file.name)}` | {request.board} | {' | '.join(large)} |")
    report = "\n".join(tables(counts, not_read, rows, engines))
    print(report)
    if asked.docs:
        page = PAGE.read_text()
        head, _, rest = page.partition(_BEGIN)
        PAGE.write_text(f"{head}{_BEGIN}\n{report}\n{_END}{rest.partition(_END)[2]}")


def one(count: Count, file: Path, text: bytes, request: Request, engine: Engine, least: int) -> list[str]:
    """Count one prediction; cells of its row when it is large."""
    count.functions += 1
    began = time.perf_counter()
    try:
        stream = build_module_stream(text, request, file.name)
        found = predict_stream(stream, request, engine)
    except TtmemError as error:
        count.outcomes["not played"] += 1
        count.reasons[error.message] += 1
        print(f"{file.name} {request.settings['function']}: {error}", flush=True)
        return []
    said = outcome(found)
    count.outcomes[said] += 1
    for kind in ("exact", "bounded", "unknown"):
        count.operations[kind] += getattr(found.operations, kind)
    if not found.fits:
        failure = found.profile.to_json()["failure"] or {}
        where = (failure.get("operation") or {}).get("name", "")
        count.reasons[f"{failure.get('class')}: {where}"] += 1
        message = str(failure.get("message"))[:160]
        print(f"{request.engine} {file.name} {request.settings['function']}: {where}: {message}", flush=True)
    if len(stream.calls) < least:
        return []
    seconds = time.perf_counter() - began
    peaks = found.profile.to_json()["memories"]
    figures = [f"{peaks[name]['peak_bytes_per_bank']:,}" for name in ("DRAM", "L1")]
    share = (
        f"{found.operations.exact:,} of {sum(getattr(found.operations, k) for k in ('exact', 'bounded', 'unknown')):,}"
    )
    print(f"{request.engine} {file.name}: {len(stream.calls)} operations, {seconds:.1f} s", flush=True)
    return [*figures, share]


def tables(counts: dict[str, Count], not_read: Counter[str], rows: list[str], engines: list[str]) -> Iterator[str]:
    yield (
        "| engine | functions | played, all exact | played, some bounds | does not fit | refused | not read "
        "| operations exact | bounded | unknown |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    for name, count in counts.items():
        outcomes = (count.outcomes[one] for one in ("exact", "with bounds", "does not fit", "refused", "not played"))
        kinds = (f"{count.operations[one]:,}" for one in ("exact", "bounded", "unknown"))
        yield f"| {name} | {count.functions} | {' | '.join(map(str, outcomes))} | {' | '.join(kinds)} |"
    for reason, number in not_read.items():
        yield f"\nNot read: {number} files ({reason})."
    for name, count in counts.items():
        if count.reasons:
            told = "; ".join(f"{reason} ({number})" for reason, number in count.reasons.most_common())
            yield f"\nOn the {name}: {told}."
    if rows:
        cells = " | ".join(f"{name}: DRAM peak, B per bank | L1 | exact" for name in engines)
        yield f"\n| module | board | {cells} |"
        yield f"|---|---|{'--:|' * 3 * len(engines)}"
        yield from rows


if __name__ == "__main__":
    main()
