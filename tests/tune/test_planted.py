# SPDX-License-Identifier: Apache-2.0
"""Programs with a problem planted in them: it is found, told first, and the promise is what the mock says then."""

from __future__ import annotations

import pytest

import ttmem
from ttmem.analysis.findings import findings
from ttmem.library.tune import Tuned
from tune.conftest import HEAD, Capture
from tune.planted import PROBLEMS

pytestmark = pytest.mark.oracle

_ON_BOTH = ("late free", "wrong memory", "needless float32", "padding")
CASES = [("n150", name) for name in PROBLEMS] + [("p150", name) for name in _ON_BOTH]


@pytest.mark.parametrize(("board", "name"), CASES)
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
    if problem.edit.startswith(("order", "region")):
        answer = ttmem.whatif(profile, [problem.edit])
        assert answer.applied[0].confidence == "exact"
        assert answer.after.dram_peak_bytes_per_bank <= answer.before.dram_peak_bytes_per_bank
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


@pytest.mark.parametrize("name", [name for name, problem in PROBLEMS.items() if problem.clean])
def test_a_clean_program_has_no_finding(capture: Capture, name: str) -> None:
    assert findings(capture(PROBLEMS[name].clean)) == []
