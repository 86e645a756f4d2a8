# SPDX-License-Identifier: Apache-2.0
"""Input and surroundings that nobody wishes for: bounded, answered, and without effect on anything else."""

from __future__ import annotations

import pytest

from support.measured_child import child

__all__ = ["child"]

_REPEATED = "test_what_repeats_itself_is_left_out_of_every_verb["


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Half a GB through nine verbs, five times: one of them runs every day."""
    for item in items:
        if item.name.startswith(_REPEATED) and item.name != f"{_REPEATED}two lines]":
            item.add_marker(pytest.mark.nightly)
