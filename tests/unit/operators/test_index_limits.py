# SPDX-License-Identifier: Apache-2.0
"""Indices in generated tests stay inside of the table that they index."""

from __future__ import annotations

from types import SimpleNamespace

from ttmem.operators.pytest_files import _index_limit


def test_indices_are_drawn_below_the_rows_of_the_table() -> None:
    table = SimpleNamespace(argument="weight", model_shape=(50257, 768))
    indices = SimpleNamespace(argument="indices", model_shape=(1, 128))
    assert _index_limit(SimpleNamespace(inputs=(table, indices), reference={})) == 50257  # type: ignore[arg-type]
