# SPDX-License-Identifier: Apache-2.0
"""Runs that end because something does not fit: what is promised covers the call that failed, as the mock says."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tune.conftest import Capture
from tune.test_random_edits import proven

pytestmark = pytest.mark.oracle
_MORE = os.environ.get("TTMEM_ORACLE_CASES")
EXAMPLES = int(_MORE or 3)
_WIDE = (1, 1, 4096, 2048)
_UNARY = ("gelu", "relu", "exp")
_FULL_L1 = "a, b, c, d, e = (make(1, 1, 4096, 2048, memory=L1) for _ in range(5))\n"
_CLASH = "a = make(1, 1, 4096, 4096)\nb = ttnn.to_memory_config(a, L1)\nc = ttnn.softmax(b, dim=-1)\n"
_FULL_DRAM = "big = [make(1, 32, 8192, 4096) for _ in range(5)]\nx = make(1, 1, 4096, 4096)\ny = ttnn.relu(big[0])\n"


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Tensors that fill most of L1, and calls on them until one does not fit; and edits that may make room."""
    names = [f"t{number}" for number in range(draw(st.integers(2, 4)))]
    lines = [f"{name} = make(*{_WIDE}, memory=L1)" for name in names]
    lines.append(f"far = make(*{_WIDE})")
    for number in range(draw(st.integers(3, 8))):
        own = f"u{number}"
        first, other = draw(st.sampled_from([*names, "far"])), draw(st.sampled_from([*names, "far"]))
        memory = draw(st.sampled_from(("", ", memory_config=L1", ", memory_config=DRAM")))
        calls = (
            f"ttnn.{draw(st.sampled_from(_UNARY))}({first}{memory})",
            f"ttnn.add({first}, {other}{memory})",
            f"ttnn.softmax({first}, dim=-1{memory})",
            f"ttnn.layer_norm({first}{memory})",
            f"ttnn.to_memory_config({first}, L1)",
            f"ttnn.mean({first}, dim=-1, keepdim=True)",
            f"ttnn.matmul({first}, ttnn.transpose({other}, -2, -1){memory})",
        )
        call = draw(st.sampled_from(calls))
        lines.append(f"{own} = {call}")
        if "mean" not in call and "matmul" not in call:
            names.append(own)
    kinds = ("free:{}", "free:{}", "memory:{}=DRAM", "memory:{}=DRAM", "inplace:{}", "dtype:{}=bfloat8_b")
    wanted = [
        draw(st.sampled_from(kinds)).format(draw(st.sampled_from([*names, *names[-2:]])))
        for _ in range(draw(st.integers(2, 8)))
    ]
    return "\n".join(lines), wanted


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_a_promise_covers_the_call_that_failed(capture: Capture, board: str) -> None:
    seen: Counter[str] = Counter()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=not _MORE,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    @example((f"{_FULL_L1}z = ttnn.gelu(e, memory_config=L1)", ["free:a", "memory:b=DRAM"]))
    @example((f"{_FULL_L1}z = ttnn.softmax(e, dim=-1)", ["memory:a=DRAM", "memory:b=DRAM", "memory:c=DRAM"]))
    @example((_CLASH, ["memory:c=DRAM"]))
    @example((f"{_CLASH}d = ttnn.relu(c)", ["memory:b=DRAM"]))
    @example((f"{_FULL_L1}y = ttnn.mean(e, dim=-2)\nz = ttnn.add(e, e)", ["memory:z=DRAM"]))
    @example((_FULL_DRAM.replace("range(5)", "range(6)"), ["memory:x=L1"]))
    def check(drawn: tuple[str, list[str]]) -> None:
        found = proven(capture, *drawn, board)
        if found is None:
            return
        edits, answer, done = found
        run = answer.draft.history
        told = "finished" if not run.is_short else "fits" if answer.after.fits else "too full"
        seen[f"{told}, {'all' if run.unfinished is None or run.unfinished.is_known else 'not all'} known"] += 1
        assert run.unfinished is not None or not run.is_short
        assert done.agrees is not False, (drawn[0], edits, answer.applied, answer.after, done)

    check()
    print(seen)
    assert seen["fits, all known"] >= 3
