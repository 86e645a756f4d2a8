# SPDX-License-Identifier: Apache-2.0
"""Programs with a problem planted in them: it is found, told first, and the promise is what the mock says then."""

from __future__ import annotations

from pathlib import Path

import pytest

import ttmem
from ttmem.analysis.findings import findings
from ttmem.analysis.peaks import peaks_of
from ttmem.library.tune import Tuned
from ttmem.profile import Profile
from ttmem.reports.tune import terminal
from ttmem.tune.verifying import plan, run_again
from tune.conftest import HEAD, Capture
from tune.planted import CLEAN, PROBLEMS

pytestmark = pytest.mark.oracle
EXAMPLES = Path(__file__).parents[2] / "examples"

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
    profile = capture(PROBLEMS["bad order"].body)
    tuned = ttmem.tune(profile, most=2, verify=True, output=2)
    told = tuned.to_json()["verified"]
    assert (told["agrees"], told["not_made"]) == (None, [PROBLEMS["bad order"].edit])
    assert told["DRAM"] > tuned.after.dram_peak_bytes_per_bank
    assert "nothing is proven" in terminal.render(tuned.document())


def test_a_sharded_tensor_is_laid_out_otherwise_at_its_call(capture: Capture) -> None:
    profile = capture("""
    form = ttnn.create_sharded_memory_config((1, 1, 512, 256), ttnn.CoreGrid(y=2, x=4), ttnn.ShardStrategy.HEIGHT)
    x = make(1, 1, 512, 256, memory=form)
    y = ttnn.to_memory_config(x, DRAM)
    """)
    answer = ttmem.whatif(profile, ["shard:x=interleaved"])
    told = plan(answer.draft.history, answer.applied)
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
