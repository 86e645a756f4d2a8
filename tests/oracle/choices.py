# SPDX-License-Identifier: Apache-2.0
"""Random calls of the records: their choices are made by hypothesis, so that a call that fails shrinks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st

from oracle.draws import draw_call
from oracle.draws.embedding import draw_wide_embedding
from ttmem.twin.operations import RECORDS, OperationRecord

_NAMING = ("tensor", "alloc", "host", "out")
T = TypeVar("T")
Step = dict[str, Any]


class HypothesisChoose:
    """``Choose`` of the draws, on hypothesis' ``draw``."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def one_of(self, values: Sequence[T]) -> T:
        return values[self._draw(st.integers(0, len(values) - 1))]


def chosen_records() -> list[OperationRecord]:
    """Return the records that ``make oracle ONLY=topk,matmul`` names, by operation or family; all without it."""
    words = [word.strip() for word in os.environ.get("TTMEM_ORACLE_ONLY", "").split(",") if word.strip()]
    known = {name for record in RECORDS for name in (record.name, record.family)}
    if unknown := [word for word in words if word not in known]:
        close = get_close_matches(unknown[0], known, n=3)
        raise pytest.UsageError(
            f"no operation or family '{unknown[0]}'" + (f"; did you mean {close}?" if close else "")
        )
    return [record for record in RECORDS if not words or {record.name, record.family} & set(words)]


@st.composite
def calls(draw: st.DrawFn) -> list[Step]:
    """A random call of any operation, each family as often as the others."""
    choose = HypothesisChoose(draw)
    record = choose.one_of(choose.one_of(_families(record for record in chosen_records() if not record.needs_mesh)))
    return draw_call(record, choose)


@st.composite
def calls_with_a_variant(draw: st.DrawFn) -> tuple[list[Step], list[Step] | None]:
    """A random call and, for each fifth one, the same call with one keyword argument drawn anew.

    A program is kept under a key of its call: an argument that the key lacks would find the wrong program.
    """
    choose = HypothesisChoose(draw)
    record = choose.one_of(choose.one_of(_families(record for record in chosen_records() if not record.needs_mesh)))
    steps = draw_call(record, choose)
    if choose.integer(0, 4):
        return steps, None
    (*allocations, call), other = steps, draw_call(record, choose)[-1]
    plain = {
        key: value for key, value in other.get("kwargs", {}).items() if isinstance(value, int | float | str | bool)
    }
    changed = [key for key, value in plain.items() if key in call.get("kwargs", {}) and call["kwargs"][key] != value]
    if not changed:
        return steps, None
    key = choose.one_of(changed)
    return steps, [*allocations, {**call, "kwargs": {**call["kwargs"], key: plain[key]}}]


@st.composite
def bounded_calls(draw: st.DrawFn) -> list[Step]:
    """A random call that the twin estimates: the only one that is drawn on purpose."""
    return draw_wide_embedding(RECORDS.find("embedding"), HypothesisChoose(draw))


def _families(records: Iterable[OperationRecord]) -> list[list[OperationRecord]]:
    by_family: dict[str, list[OperationRecord]] = {}
    for record in records:
        by_family.setdefault(record.family, []).append(record)
    return list(by_family.values())


def renamed(value: Any, names: dict[str, str]) -> Any:
    """A step with other names for its tensors."""
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _named(item, names) if key in _NAMING else renamed(item, names) for key, item in value.items()}


def _named(item: Any, names: dict[str, str]) -> Any:
    """A name, or those of several results."""
    if isinstance(item, list):
        return [_named(one, names) for one in item]
    return names.get(item, item) if isinstance(item, str) else renamed(item, names)
