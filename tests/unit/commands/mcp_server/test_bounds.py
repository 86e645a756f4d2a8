# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.commands.mcp_server.calls import (
    DEFAULT_ROWS,
    MOST_CHARACTERS,
    MOST_ROWS,
    limit_document,
    limit_rows,
    limit_text,
)


@pytest.mark.parametrize(("asked", "given_rows"), [(-5, 1), (0, 1), (7, 7), (100, 100), (10_000, 100)])
def test_rows_are_capped(asked: int, given_rows: int) -> None:
    assert limit_rows(asked) == given_rows


def test_long_tables_are_cut_and_counted() -> None:
    document = {
        "name": "x",
        "consumers": [{"tensor": f"%{n}", "shape": [1, 2, 3]} for n in range(25)],
        "weights": {"entries": [{"name": n} for n in range(12)]},
        "warnings": ["a", "b"],
    }
    answer = limit_document(document, DEFAULT_ROWS)
    assert [entry["tensor"] for entry in answer["consumers"]] == [f"%{n}" for n in range(10)]
    assert answer["consumers"][0]["shape"] == [1, 2, 3]
    assert answer["not_listed"] == {"consumers": 15, "weights.entries": 2}
    assert document["consumers"][24]["tensor"] == "%24"  # the document itself is not touched


def test_tables_by_name_are_tables() -> None:
    answer = limit_document({"operations": {"by_name": {f"ttnn.op{n}": n for n in range(60)}}}, 10)
    assert list(answer["operations"]["by_name"]) == [f"ttnn.op{n}" for n in range(10)]
    assert answer["not_listed"] == {"operations.by_name": 50}


def test_what_is_short_is_left_alone() -> None:
    document = {"a": [1, 2], "b": {"c": "text"}, "d": None}
    assert limit_document(document, 10) == document


def test_rows_are_given_up_before_the_answer_grows_too_long() -> None:
    document = {"rows": [{"text": "x" * 1500} for _ in range(100)]}
    answer = limit_document(document, MOST_ROWS)
    assert len(json.dumps(answer)) <= MOST_CHARACTERS
    assert len(answer["rows"]) + answer["not_listed"]["rows"] == 100


def test_texts_are_cut_with_a_remark() -> None:
    assert limit_document({"message": "x" * 3000}, 10)["message"] == "x" * 2000 + "… (1,000 more characters)"
    assert limit_text("short") == "short"
    assert limit_text("x" * (MOST_CHARACTERS + 5)).endswith("(cut: 5 more characters)")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=5), inner, max_size=60),
    max_leaves=200,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=60), st.integers(-10, 1000))
def test_any_document_stays_json_and_no_table_is_longer_than_asked(document: dict[str, object], rows: int) -> None:
    answer = limit_document(document, rows)
    json.dumps(answer)

    def check(value: object) -> None:
        if isinstance(value, dict):
            for item in value.values():
                check(item)
        elif isinstance(value, list):
            numbers = all(isinstance(item, int | float) for item in value)
            assert len(value) <= (MOST_ROWS if numbers else limit_rows(rows))
            for item in value:
                check(item)

    check({key: value for key, value in answer.items() if key != "not_listed"})
