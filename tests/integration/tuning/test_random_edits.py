# SPDX-License-Identifier: Apache-2.0
"""Random programs with random edits: what is promised is what the real library does with them on the mock."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import strategies as st

import ttmem
from support.captured_scripts import Capture
from support.examples import examples
from ttmem.commands.whatif import WhatIf
from ttmem.tuning.captured_run import read_captured_run
from ttmem.tuning.verify import Verification, compare, find_certainty, plan_rerun, run_again

pytestmark = pytest.mark.oracle
_MORE = os.environ.get("TTMEM_ORACLE_CASES")
EXAMPLES = int(_MORE or 3)
_SMALL = """
first = make(1, 1, 64, 64)
x = make(1, 4, 512, 64)
between = make(1, 1, 64, 64)
y = ttnn.gelu(x, memory_config=L1)
z = ttnn.relu(x, memory_config=DRAM)
same = ttnn.to_memory_config(z, DRAM)
"""
_SHAPES = ((1, 1, 256, 512), (1, 2, 128, 256), (1, 4, 512, 64), (1, 1, 1024, 96))
_UNARY = ("relu", "gelu", "exp", "sqrt", "silu", "neg")
_BINARY = ("add", "multiply", "subtract")
_STATEMENTS = (
    "make",
    "rand",
    "unary",
    "binary",
    "softmax",
    "layer_norm",
    "matmul",
    "mean",
    "transpose",
    "copy",
    "drop",
)
_EDITS = {
    "free": ("",),
    "inplace": ("",),
    "memory": ("=DRAM", "=L1"),
    "dtype": ("=float32", "=bfloat16", "=bfloat8_b"),
    "order": ("=last", "=first"),
    "chunk": ("=2", "=3"),
}


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Statements that make tensors, read them and drop some; and edits that mean some of them."""
    lines: list[str] = []
    shapes: dict[str, tuple[int, ...]] = {}
    names: list[str] = []
    for number in range(draw(st.integers(6, 14))):
        kind = draw(st.sampled_from(_STATEMENTS)) if shapes else "make"
        memory = draw(st.sampled_from(("", "", ", memory_config=DRAM", ", memory_config=L1")))
        own = f"t{number}"
        first = draw(st.sampled_from(sorted(shapes))) if shapes else ""
        shape = draw(st.sampled_from(_SHAPES)) if kind in ("make", "rand") else shapes[first]
        if kind == "drop":
            lines.append(f"ttnn.deallocate({first})")
            del shapes[first]
            continue
        if kind == "make":
            lines.append(f"{own} = make(*{shape}, memory={draw(st.sampled_from(('DRAM', 'DRAM', 'L1')))})")
        elif kind == "rand":
            lines.append(f"{own} = ttnn.rand({shape}, device=device, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)")
        elif kind == "unary":
            lines.append(f"{own} = ttnn.{draw(st.sampled_from(_UNARY))}({first}{memory})")
        elif kind == "binary":
            other = draw(st.sampled_from([name for name, one in shapes.items() if one == shape]))
            lines.append(f"{own} = ttnn.{draw(st.sampled_from(_BINARY))}({first}, {other}{memory})")
        elif kind == "matmul":
            lines.append(f"{own} = ttnn.matmul({first}, ttnn.transpose({first}, -2, -1){memory})")
            shape = (*shape[:-1], shape[-2])
        elif kind == "mean":
            lines.append(f"{own} = ttnn.mean({first}, dim=-1, keepdim=True)")
            shape = (*shape[:-1], 1)
        elif kind == "transpose":
            lines.append(f"{own} = ttnn.transpose({first}, -2, -1)")
            shape = (*shape[:-2], shape[-1], shape[-2])
        elif kind == "copy":
            where = draw(st.sampled_from(("DRAM", "L1")))
            lines.append(f"{own} = ttnn.to_memory_config({first}, {where})")
        else:
            lines.append(f"{own} = ttnn.{kind}({first}{', dim=-1' if kind == 'softmax' else ''}{memory})")
        shapes[own] = shape
        names.append(own)
    wanted = []
    for _ in range(draw(st.integers(4, 10))):
        kind = draw(st.sampled_from(sorted(_EDITS)))
        wanted.append(f"{kind}:{draw(st.sampled_from(names))}{draw(st.sampled_from(_EDITS[kind]))}")
    return "\n".join(lines), wanted


def proven(capture: Capture, text: str, wanted: list[str], board: str) -> tuple[list[str], WhatIf, Verification] | None:
    """A program with those of the edits that can be asked for together, and what the mock says; None without any."""
    profile = capture(text, board=board)
    answer, edits = None, list[str]()
    for edit in wanted:
        try:
            answer = ttmem.whatif(profile, [*edits, edit])
        except ttmem.TtmemError:
            continue  # it changes nothing, or means what is not there
        edits.append(edit)
    if answer is None:
        return None
    told = plan_rerun(answer.draft.history, answer.applied)
    run = read_captured_run(run_again(profile, told, output=2))
    doubt = answer.programs_doubt
    return (
        edits,
        answer,
        compare(
            answer.draft, answer.after, told, confidence=find_certainty(answer.applied), run=run, programs_doubt=doubt
        ),
    )


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_random_edits_of_random_programs_keep_their_promise(capture: Capture, board: str) -> None:
    @examples(
        EXAMPLES,
        derandomize=not _MORE,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    @example((_SMALL, ["order:x=first", "memory:x=L1", "free:x"]))
    @example((_SMALL, ["order:x=last", "dtype:x=float32", "free:x", "chunk:y=2"]))
    @example((_SMALL, ["memory:z=L1"]))
    def check(drawn: tuple[str, list[str]]) -> None:
        found = proven(capture, *drawn, board)
        if found is not None:
            edits, answer, done = found
            assert done.agrees is not False, (drawn[0], edits, find_certainty(answer.applied), answer.after, done)

    check()
