# SPDX-License-Identifier: Apache-2.0
"""What is not worth a line: small things, variables that live to the end, findings that an edit takes care of."""

from __future__ import annotations

import pytest

import ttmem
from support.captured_scripts import Capture
from ttmem.analysis.findings import findings, negligible

pytestmark = pytest.mark.oracle

LOCALS = """
def upload():
    tensor = make(1, 1, 1024, 1024)
    return tensor

def main():
    a = make(1, 1, 1024, 1024)
    b = ttnn.relu(a)
    c = upload()
    d = upload()
    e = ttnn.add(c, d)
    f = ttnn.gelu(b)
    g = ttnn.add(f, e)

main()
ttnn.close_device(device)
"""
GROWING = """
kept = []
for _ in range(6):
    y = make(1, 1, 1024, 1024)
    kept.append(y)
    z = ttnn.relu(y)
    z = None
w = make(1, 1, 1024, 1024)
w = ttnn.relu(w)
w = ttnn.relu(w)
ttnn.close_device(device)
"""
SMALL = """
wide = make(1, 1, 64, 64, dtype=ttnn.float32)
x = ttnn.relu(wide)
y = ttnn.gelu(x)
z = ttnn.relu(y)
z = ttnn.relu(z)
"""


def test_variables_that_live_to_the_end_are_no_leaks_unless_they_grow(capture: Capture) -> None:
    assert [one for one in findings(capture(LOCALS)) if one.kind == "leak"] == []
    (leak,) = [one for one in findings(capture(GROWING)) if one.kind == "leak"]
    assert leak.count >= 5


def test_what_is_small_is_no_finding_and_no_edit(capture: Capture) -> None:
    profile = capture(SMALL)
    assert findings(profile) == []
    assert ttmem.tune(profile).steps == ()
    assert ttmem.tune(profile, max_dram="1KiB").steps  # a target asks for what it takes
    bank = 1023 << 20
    assert negligible(bank) == 64 << 10
    assert negligible(1_393_312) == 1393


def test_a_finding_that_an_edit_takes_care_of_is_not_repeated(capture: Capture) -> None:
    profile = capture(GROWING)
    assert [one.kind for one in ttmem.tune(profile).findings] == ["leak"]
    answer = ttmem.tune(profile).document()
    assert any(one.kind == "free" for one in answer.edits)
    assert answer.findings == []
