# SPDX-License-Identifier: Apache-2.0
"""Limits that tt-metal publishes for language models, against what ``ttmem fit`` says: at the limit, and one step on.

    python bench/fit_limits.py                 # the table
    python bench/fit_limits.py --write         # also into docs/language-models.md
    python bench/fit_limits.py --engine mock   # the real library judges

The rows are in fit_limits.toml. Percent is what the recipe's tensors need of a chip's DRAM, without what it keeps free;
the verdict comes from the engine, with it. No row is a goal: a miss is shown with what is known of it. Exit 1 when a
row that a source says must fit does not, and nothing is known of it.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from ttmem.base import atomic_files, toml  # noqa: E402
from ttmem.hardware import DRAM, OpenSettings, open_board  # noqa: E402
from ttmem.prediction.language.stream import build_language_stream  # noqa: E402
from ttmem.prediction.request import Request  # noqa: E402
from ttmem.prediction.run_stream import open_for_request, predict_stream  # noqa: E402
from ttmem.prediction.stream import Stream  # noqa: E402
from ttmem.twin.placement import place  # noqa: E402
from ttmem.twin.replay import read_spec  # noqa: E402

PAGE = ROOT / "docs" / "language-models.md"
_BEGINS, _ENDS = "<!-- limits: written by bench/fit_limits.py --write -->", "<!-- end of limits -->"

OWN_STACKS = ("gemma4", "gpt-oss")
KEPT_FREE, TRACE_REGION = "kept free", "trace region"
"""Tensors of the recipes that hold nothing."""


@dataclass(frozen=True)
class Assertion:
    """One thing that a source says: these sizes fit, or they do not."""

    model: str
    board: str
    recipe: str
    sizes: dict[str, int]
    is_limit: bool
    kind: str
    source: str
    why: str
    percent: float
    fits: bool

    @property
    def right(self) -> bool:
        return self.fits == self.is_limit


def assertions(data: dict[str, Any], engine: str) -> Iterator[Assertion]:
    """Every row with every recipe that it is told for."""
    for row in data["row"]:
        config = {key: value for key, value in data["models"][row["model"]].items() if key != "from_memory"}
        for word in row["recipes"]:
            recipe = word if word in OWN_STACKS else f"tt-transformers:{word}"
            for key, is_limit in (("limit", True), ("next", False)):
                if key not in row:
                    continue
                request = Request(
                    row["model"], row["board"], engine=engine, recipe=recipe, l1_small_bytes=0, **row[key]
                )
                stream = build_language_stream(request, {**config, "max_position_embeddings": 1 << 20})
                with open_for_request(request) as player:
                    fits = predict_stream(stream, request, player).fits
                known = (row["kind"], row["source"], row.get("why", ""))
                bank_bytes = open_board(request.board, OpenSettings()).pool(DRAM).bytes_per_bank
                percent = 100 * sum(needed_bytes_per_bank(stream, request.board, without=[KEPT_FREE])) / bank_bytes
                yield Assertion(row["model"], row["board"], word, row[key], is_limit, *known, percent, fits)


def needed_bytes_per_bank(stream: Stream, board: str, *, without: Sequence[str]) -> tuple[int, int]:
    """All tensors that stay, and the fullest stage beside them; arithmetic, so that it may be more than there is."""
    memory_map = open_board(board, OpenSettings())

    def taken(step: Any) -> int:
        return place(read_spec(step), memory_map).taken_bytes_per_bank

    staying = sum(taken(one.step) for one in stream.residents if one.name not in without)
    held: dict[str, int] = {}
    fullest = 0
    for call in stream.calls:
        held |= {str(step["alloc"]): taken(step) for step in call.steps}
        fullest = max(fullest, sum(held.values()))
        for name in call.frees:
            held.pop(name, None)
    return staying, fullest


def table(found: list[Assertion]) -> str:
    """As Markdown."""
    lines = [
        "| model | board | recipe | stated | needs | fit says | right | kind | source |",
        "|---|---|---|---|--:|---|---|---|---|",
    ]
    for one in found:
        stated = f"{'fits' if one.is_limit else 'does not fit'}: {_sizes(one.sizes)}"
        right = "yes" if one.right else f"no: {one.why or 'not explained'}"
        said = "fits" if one.fits else "does not fit"
        lines.append(
            f"| {one.model} | {one.board} | {one.recipe} | {stated} | {one.percent:.1f} % | {said} | {right} "
            f"| {one.kind} | {one.source} |"
        )
    return "\n".join(lines)


def _sizes(sizes: dict[str, int]) -> str:
    users = f"{sizes.get('users', 1)} x " if "users" in sizes else ""
    chunk = f", chunk {_kibi(sizes['prefill_chunk'])}" if "prefill_chunk" in sizes else ""
    return f"{users}{_kibi(sizes['context'])}{chunk}"


def _kibi(tokens: int) -> str:
    return f"{tokens // 1024}k"


def summary(found: list[Assertion]) -> str:
    fits = [one for one in found if one.is_limit]
    fails = [one for one in found if not one.is_limit]
    close = [one for one in found if 85 <= one.percent <= 115]
    memory = [one for one in found if one.kind in ("D", "d", "-")]
    counts = [
        ("assertions", found),
        ("stated fits", fits),
        ("stated no-fits", fails),
        ("between 85 and 115 % of DRAM", close),
        ("where memory is the reason or no limit is stated", memory),
    ]
    return "; ".join(f"{name}: {sum(one.right for one in items)} of {len(items)} right" for name, items in counts) + "."


_SPLITS = 200
_RESERVES = [quarter / 4 for quarter in range(25)]


def held_out(found: list[Assertion]) -> str:
    """The reserve chosen on the rows of half of the models, judged on the others: many ways to halve them."""
    models = sorted({one.model for one in found})
    chosen, judged, best = [], [], []
    for split in range(_SPLITS):
        half = set(random.Random(split).sample(models, len(models) // 2))
        ours = [one for one in found if one.model in half]
        others = [one for one in found if one.model not in half]
        counts = {reserve: _right(ours, reserve) for reserve in _RESERVES}
        equal = [reserve for reserve, count in counts.items() if count == max(counts.values())]
        chosen.append(equal[len(equal) // 2])
        judged.append(100 * _right(others, chosen[-1]) / len(others))
        best.append(100 * max(_right(others, reserve) for reserve in _RESERVES) / len(others))
    return (
        f"Held out: the reserve chosen on the rows of half of the models is {mean(chosen):.1f} % of DRAM on average of"
        f" {_SPLITS} halvings ({min(chosen):g} to {max(chosen):g} %), and is right on {mean(judged):.1f} % of the rows"
        f" of the other half (at worst {min(judged):.1f} %); the reserve that suits those best would be right on"
        f" {mean(best):.1f} %. On all rows, reserves from 0 to 6 % are right on {_range(found)} of {len(found)}."
    )


def _right(rows: list[Assertion], reserve_percent: float) -> int:
    return sum((one.percent <= 100 - reserve_percent) == one.is_limit for one in rows)


def _range(found: list[Assertion]) -> str:
    counts = [_right(found, reserve) for reserve in _RESERVES]
    return f"{min(counts)} to {max(counts)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["twin", "mock"], default="twin")
    parser.add_argument("--write", action="store_true", help=f"renew the table in {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    data = toml.loads((ROOT / "bench" / "fit_limits.toml").read_text(encoding="utf-8"))
    found = list(assertions(data, arguments.engine))
    sources = "; ".join(f"{letter} `{path}`" for letter, path in data["sources"].items())
    text = f"{summary(found)}\n\n{held_out(found)}\n\n{table(found)}\n\nSources, in tt-metal: {sources}."
    print(text)
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        before, begins, rest = page.partition(_BEGINS)
        _, ends, after = rest.partition(_ENDS)
        if not begins or not ends:
            raise SystemExit(f"{PAGE} has no place for the table")
        atomic_files.write_text(PAGE, f"{before}{begins}\n\n{text}\n\n{ends}{after}")
    return 1 if any(one.is_limit and not one.right and not one.why for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
