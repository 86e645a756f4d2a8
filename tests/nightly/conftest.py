# SPDX-License-Identifier: Apache-2.0
"""Ratios of time and memory, which cost a lot and disturb each other: all of them run in ``make nightly``.

One of each kind runs every day.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.measured_child import child

__all__ = ["child"]

DAILY = {
    "test_explain_cost.py::test_import_reads_no_file_and_compiles_no_expression",
    "test_explain_cost.py::test_twice_the_text_costs_about_twice_the_time[different failures]",
    "test_growth.py::test_a_log_that_is_followed[submits]",
    "test_growth.py::test_a_page_of_runs_that_each_keep_something",
    "test_growth.py::test_an_edit_of_every_tensor_of_a_long_run[free:*]",
    "test_growth.py::test_known_patterns[programs left open]",
    "test_growth.py::test_known_patterns[submits]",
    "test_growth.py::test_known_patterns[tensors that are never freed]",
    "test_growth.py::test_many_tensors_of_a_module[results alive]",
    "test_growth.py::test_modules_of_a_log",
    "test_growth.py::test_random_patterns[0]",
    "test_growth.py::test_results_of_a_sweep[summary]",
    "test_growth_of_damage.py::test_damaged_records[views that never end]",
}
"""File and name of a test."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and f"{item.path.name}::{item.name}" not in DAILY:
            item.add_marker(pytest.mark.nightly)
