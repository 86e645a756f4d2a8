# SPDX-License-Identifier: Apache-2.0
"""Programs with a problem planted in them: it is found, told first, and the promise is what the mock says then."""

from __future__ import annotations

from pathlib import Path

import pytest

import ttmem
from integration.tuning.planted import CLEAN, PROBLEMS
from support.captured_scripts import HEAD, Capture
from ttmem.analysis.findings import findings
from ttmem.analysis.peaks import peaks_of
from ttmem.commands.tune import Tuned
from ttmem.profile.model import Profile
from ttmem.tuning.captured_run import read_captured_run
from ttmem.tuning.verify import compare, plan_rerun, run_again

pytestmark = pytest.mark.oracle
EXAMPLES = Path(__file__).parents[3] / "examples"

BY_HAND = ("order", "region")
"""Edits whose promise is compared with the program as it is written without the problem."""


@pytest.mark.parametrize("board", ["n150", "p150"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_planted_problem_is_found_first_and_its_edit_keeps_its_promise(
    capture: Capture, board: str, name: str
) -> None:
    problem = PROBLEMS[name]
    head = HEAD.replace("device_id=0", f"device_id=0, {problem.open}") if problem.open else HEAD
    # GIVEN a captured run of it
    profile = capture(problem.body, head=head, board=board)
    # WHEN it is looked at
    found = findings(profile)
    if problem.finding:
        assert found, "nothing was found"
        assert (found[0].kind, found[0].tensor) == (problem.finding, problem.tensor or found[0].tensor)
        assert found[0].bytes_per_bank > 0
    if not problem.edit:
        return
    # THEN tune comes to the edit (first of all where it lowers a peak), and the real library agrees to the byte
    if problem.edit.startswith(BY_HAND):
        answer = ttmem.whatif(profile, [problem.edit])
        assert answer.applied[0].confidence == "exact"
        assert _buffers(answer.profile()) == _buffers(capture(problem.clean, board=board))
        return
    tuned: Tuned = ttmem.tune(profile, most=1, verify=True, output=2, **({"max_l1": "1%"} if problem.limit else {}))
    assert tuned.steps, "no edit was found"
    assert str(tuned.steps[0].applied.edit).startswith(problem.edit)
    assert tuned.steps[0].applied.confidence == "exact"
    assert tuned.verified is not None
    assert tuned.verified.agrees
    after = (tuned.after.dram_peak_bytes_per_bank, tuned.after.l1_peak_bytes_per_bank)
    assert after == (tuned.verified.dram_peak_bytes_per_bank, tuned.verified.l1_peak_bytes_per_bank)
    memory = "L1" if problem.limit else "DRAM"
    assert tuned.after.peak(memory) < tuned.before.peak(memory)


def _buffers(profile: Profile) -> tuple[object, ...]:
    """Every buffer's place and size, how full the memories got, and how large they are."""
    (timeline,) = profile.timelines
    assert timeline.buffers is not None
    columns = timeline.buffers.columns
    rows = zip(*(columns[name].tolist() for name in ("memory", "address", "bytes_per_bank")), strict=True)
    assert timeline.events is not None
    peaks = {name: peak.peak_bytes_per_bank for name, peak in peaks_of(profile, 0).items()}
    return sorted(rows), peaks, timeline.events.pools


def test_an_edit_that_a_run_cannot_be_given_is_named_and_proves_nothing(capture: Capture) -> None:
    profile = capture("""
    x = make(1, 1, 512, 512)
    y = ttnn.softmax(x, dim=-2)
    """)
    answer = ttmem.whatif(profile, ["chunk:softmax=4"])
    told = plan_rerun(answer.draft.history, answer.applied)
    done = compare(
        answer.draft,
        answer.after,
        told,
        confidence="bounded",
        run=read_captured_run(run_again(profile, told, output=2)),
    )
    assert done.agrees is None
    assert "chunk:softmax=4" in done.not_made[0]


@pytest.mark.parametrize("board", ["n150", "p150"])
@pytest.mark.parametrize(
    ("edit", "confidence"),
    [
        ("order:late=last", "exact"),
        ("order:second=first", "exact"),
        ("order:host=last", "exact"),
        ("chunk:gelu=3", "bounded"),
        ("chunk:softmax=4", "bounded"),
        ("chunk:matmul=2", "bounded"),
        ("shard:small=height:32x256@4x4", "exact"),
        ("dtype:host=bfloat8_b", "exact"),
        ("memory:small=DRAM", "exact"),
    ],
)
def test_an_edit_is_made_at_run_time_and_keeps_its_promise(
    capture: Capture, board: str, edit: str, confidence: str
) -> None:
    # GIVEN a program with uploads, products and results in both memories
    profile = capture(_MIXED, board=board)
    # WHEN one edit is promised, and the real library runs with it
    answer = ttmem.whatif(profile, [edit])
    told = plan_rerun(answer.draft.history, answer.applied)
    run = read_captured_run(run_again(profile, told, output=2))
    doubt = answer.programs_doubt
    done = compare(answer.draft, answer.after, told, confidence=confidence, run=run, programs_doubt=doubt)
    # THEN it is as certain as it says: equal to the byte with what programs need, or not more
    assert (answer.applied[0].confidence, done.agrees, done.not_made) == (confidence, True, ())
    if confidence == "exact":
        assert answer.after.dram_peak_bytes_per_bank == done.dram_peak_bytes_per_bank
        assert answer.after.l1_peak_bytes_per_bank == done.l1_peak_bytes_per_bank


_MIXED = """
    late = make(1, 4, 512, 512)
    x = make(1, 2, 512, 512)
    y = ttnn.exp(x)
    second = make(1, 1, 512, 512)
    ttnn.deallocate(y)
    rows = ttnn.Tensor([0.0] * 512 * 512, [1, 1, 512, 512], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
    host = ttnn.to_device(rows.to(ttnn.TILE_LAYOUT), device)
    z = ttnn.relu(late)
    del late
    g = ttnn.gelu(z)
    s = ttnn.softmax(g, dim=-1)
    small = make(1, 1, 512, 256, memory=L1)
    r = ttnn.relu(small)
    m = ttnn.matmul(second, host)
    """


def test_a_sharded_tensor_is_laid_out_otherwise_at_its_call(capture: Capture) -> None:
    profile = capture("""
    form = ttnn.create_sharded_memory_config((1, 1, 512, 256), ttnn.CoreGrid(y=2, x=4), ttnn.ShardStrategy.HEIGHT)
    x = make(1, 1, 512, 256, memory=form)
    y = ttnn.to_memory_config(x, DRAM)
    """)
    answer = ttmem.whatif(profile, ["shard:x=interleaved"])
    told = plan_rerun(answer.draft.history, answer.applied)
    assert not told.not_made
    again = run_again(profile, told, output=2)
    assert answer.after.l1_peak_bytes_per_bank == peaks_of(again, 0)["L1"].peak_bytes_per_bank
    assert answer.after.l1_peak_bytes_per_bank < answer.before.l1_peak_bytes_per_bank


_WRITTEN = {**CLEAN, **{name: problem.clean for name, problem in PROBLEMS.items() if problem.clean}}


@pytest.mark.parametrize("name", _WRITTEN)
def test_a_clean_program_has_no_finding(capture: Capture, name: str) -> None:
    assert findings(capture(_WRITTEN[name])) == []


def test_a_clean_example_has_no_finding(capture: Capture) -> None:
    assert findings(capture((EXAMPLES / "out_of_memory_fixed.py").read_text(), head="")) == []


def test_what_nobody_can_make_is_not_proposed(capture: Capture) -> None:
    # GIVEN a convolution, whose temporaries are the peak and which nobody knows how to cut
    profile = capture(
        """
    x = make(1, 1, 64, 16, layout=ttnn.ROW_MAJOR_LAYOUT)
    w = make(32, 16, 3, 3, layout=ttnn.ROW_MAJOR_LAYOUT)
    y = ttnn.conv2d(input_tensor=x, weight_tensor=w, in_channels=16, out_channels=32, device=device, kernel_size=(3, 3),
        stride=(1, 1), padding=(1, 1), batch_size=1, input_height=8, input_width=8,
        conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat16))
    """,
        head=HEAD.replace("device_id=0", "device_id=0, l1_small_size=8192"),
    )
    # THEN asking for parts of it promises nothing, and a search does not come with it: its promise is the mock's peak
    assert ttmem.whatif(profile, ["chunk:conv2d=4"]).applied[0].confidence == "unknown"
    found = ttmem.tune(profile, verify=True, output=2)
    assert "chunk" not in {step.applied.edit.kind for step in found.steps}
    assert found.verified is not None and found.verified.agrees  # noqa: PT018
    assert found.after.dram_peak_bytes_per_bank == found.verified.dram_peak_bytes_per_bank


def test_parts_are_those_of_what_the_other_edits_leave(capture: Capture) -> None:
    profile = capture("x = make(1, 4, 512, 64)\ny = ttnn.gelu(x, memory_config=L1)")
    pair = ["chunk:gelu=2", "dtype:x=float32"]
    answer, other = ttmem.whatif(profile, pair), ttmem.whatif(profile, pair[::-1])
    assert answer.after == other.after
    told = plan_rerun(answer.draft.history, answer.applied)
    run = read_captured_run(run_again(profile, told, output=2))
    assert compare(answer.draft, answer.after, told, confidence="bounded", run=run).agrees
    for again in ("chunk:gelu=4", "inplace:y"):
        with pytest.raises(ttmem.TtmemError):
            ttmem.whatif(profile, ["chunk:gelu=2", again])
