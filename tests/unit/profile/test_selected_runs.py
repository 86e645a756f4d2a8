# SPDX-License-Identifier: Apache-2.0
"""A run that was selected from a profile can be selected again."""

from __future__ import annotations

import ttmem
from support.command_line import FIVE_RUNS


def test_a_selected_run_keeps_its_operations_when_it_is_selected_again() -> None:
    once = ttmem.read(FIVE_RUNS, run=2)
    again = ttmem.read(once, run=2)
    (first,), (second,) = once.timelines, again.timelines
    assert first.first_index > 0
    assert len(first.form) > 0
    assert (second.first_index, second.form.tolist()) == (first.first_index, first.form.tolist())
