# SPDX-License-Identifier: Apache-2.0
"""Operations keep their identity when numbers and lines move."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.build_profile import ProfileBuilder, tensor
from ttmem.analysis.alignment import align, normalize_location, pair_forms
from ttmem.profile.model import Profile


@pytest.mark.parametrize(
    ("location", "normal"),
    [
        ("fusion.586", "fusion"),
        ("gather.17_workaround", "gather_workaround"),
        ("model.layers.0.mlp.fc1", "model.layers.0.mlp.fc1"),
        ("model.layers.0.mlp.dot.12", "model.layers.0.mlp.dot"),
        ("12|Linear[fc.3]|model.py:120|forward|131|aten__mm", "|Linear[fc]|model.py:|forward||aten__mm"),
        ("-1|unknown|unknown|-1|aten__view", "|unknown|unknown||aten__view"),
        ("model.py:120:7", "model.py::"),
        ("", ""),
        ("blocks_1_norm", "blocks_1_norm"),
    ],
)
def test_only_numbers_that_an_unrelated_edit_changes_go(location: str, normal: str) -> None:
    assert normalize_location(location) == normal


def test_an_inserted_item_has_no_partner_and_a_changed_one_keeps_its_own() -> None:
    assert align("abc", "abxc") == [(0, 0), (1, 1), (2, 3)]
    assert align("abc", "aXc") == [(0, 0), (1, 1), (2, 2)]
    assert align("abcd", "acXd") == [(0, 0), (1, 2), (2, 1), (3, 3)]
    assert align("", "ab") == []


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_pairs_are_one_to_one_and_as_many_as_can_be(before: str, after: str) -> None:
    pairs = align(before, after)
    assert len(pairs) == min(len(before), len(after))
    assert len({first for first, _ in pairs}) == len({second for _, second in pairs}) == len(pairs)


@given(st.text("abc", max_size=12))
def test_equal_sequences_pair_with_themselves(items: str) -> None:
    assert align(items, items) == [(position, position) for position in range(len(items))]


def profile(*operations: tuple[str, str, int]) -> Profile:
    build = ProfileBuilder()
    for number, (name, location, rows) in enumerate(operations):
        build.operation(name, results={f"%{number}": tensor(rows, 32)}, location=location)
    return build.build()


def test_forms_are_matched_by_place_first_then_by_name() -> None:
    before = profile(("ttnn.add", "add.1", 32), ("ttnn.mul", "mul.2", 32), ("ttnn.add", "other.3", 64))
    after = profile(
        ("ttnn.add", "add.7", 96),  # the same place, another size
        ("ttnn.mul", "renamed.9", 32),  # moved to another place
        ("ttnn.neg", "neg.1", 32),  # new
        ("ttnn.add", "other.11", 64),
    )
    assert pair_forms(before, after, {"ttnn.add", "ttnn.mul", "ttnn.neg"}) == {0: 0, 1: 1, 3: 2}
    assert pair_forms(before, after, {"ttnn.mul"}) == {1: 1}
