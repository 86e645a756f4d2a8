# SPDX-License-Identifier: Apache-2.0
"""A profile, circular-buffer evidence and the worker say the same of a program, however its nodes are spelled."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem import read
from ttmem.circular_buffers.facts import circular_buffer_evidence
from ttmem.engines.worker.graph_nodes import (
    CIRCULAR,
    DATAFLOW,
    SCRATCHPAD,
    parse_core_rectangles,
    parse_memory,
    read_flag,
    read_number,
    read_program_needs,
)

YES: tuple[object, ...] = (True, 1, "1", "true", "True")
NO: tuple[object, ...] = (False, 0, "0", "false", "False", None)
NODE_TYPES = {
    CIRCULAR: ("circular_buffer_allocate", "globally_allocated"),
    DATAFLOW: ("dataflow_buffer_allocate", "borrows_memory"),
    SCRATCHPAD: ("scratchpad_allocate", "borrows_memory"),
}
Corners = tuple[int, int, int, int]


def node(kind: str, **params: object) -> dict[str, Any]:
    return {"node_type": kind, "params": params, "connections": [], "arguments": [], "input_tensors": []}


def new_spelling(ranges: list[Corners]) -> str:
    return "{" + ", ".join(f"[{left}-{top} - {right}-{bottom}]" for left, top, right, bottom in ranges) + "}"


def old_spelling(ranges: list[Corners]) -> str:
    return "{" + ", ".join(f"[(x={a},y={b}) - (x={c},y={d})]" for a, b, c, d in ranges) + "}"


@st.composite
def core_ranges(draw: st.DrawFn) -> list[Corners]:
    """One to three rectangles side by side: the library's sets do not overlap."""
    rows = draw(st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True))
    starts = [(draw(st.integers(0, 7)), row) for row in rows]
    return [(left, row, draw(st.integers(left, 7)), row) for left, row in starts]


@st.composite
def static_buffers(draw: st.DrawFn) -> tuple[dict[str, Any], str, int, bool, list[Corners]]:
    """A node in some spelling, and what it means: kind, bytes, whether it is borrowed, cores."""
    kind = draw(st.sampled_from(sorted(NODE_TYPES)))
    size, borrowed, ranges = draw(st.integers(0, 100_000)), draw(st.booleans()), draw(core_ranges())
    node_type, key = NODE_TYPES[kind]
    params: dict[str, Any] = {
        "size": draw(st.sampled_from((size, str(size)))),
        "core_range_set": draw(st.sampled_from((new_spelling, old_spelling)))(ranges),
        "device_id": draw(st.sampled_from((0, "0"))),
        "address": draw(st.sampled_from((0, "0", None))),
    }
    if borrowed or draw(st.booleans()):
        params[key] = draw(st.sampled_from(YES if borrowed else NO))
    return node(node_type, **params), kind, size, borrowed, ranges


@given(st.lists(static_buffers(), max_size=6))
def test_all_rooms_agree_with_plain_arithmetic(
    tmp_path_factory: pytest.TempPathFactory, buffers: list[tuple[dict[str, Any], str, int, bool, list[Corners]]]
) -> None:
    # GIVEN a program whose buffers lie on some cores, some of them in tensors
    per_core: dict[tuple[int, int], Counter[str]] = {}
    for _, kind, size, borrowed, ranges in buffers:
        for left, top, right, bottom in ranges if not borrowed else []:
            for x in range(left, right + 1):
                for y in range(top, bottom + 1):
                    per_core.setdefault((x, y), Counter())[kind] += size
    most = max((sum(held.values()) for held in per_core.values()), default=0)
    nodes = [
        node("capture_start"),
        node("function_start", name="ttnn::add", program_cache_hit=False),
        node("circular_buffer_deallocate_all", device_id=0),
        *(one[0] for one in buffers),
        node("function_end", name="ttnn::add"),
    ]
    path = tmp_path_factory.getbasetemp() / "agreement.json"
    path.write_text(json.dumps(nodes))
    # WHEN the three rooms that meet such nodes are asked
    needs = read(path).timelines[0].programs_l1
    assert needs is not None
    profile = tuple(int(part[0]) for part in (needs.circular_buffers, needs.dataflow_buffers, needs.scratchpads))
    ((_, *worker),) = read_program_needs(nodes)
    programs = circular_buffer_evidence(str(path)).programs
    # THEN they say the same, and it is what the fullest core holds
    assert profile == tuple(worker)
    assert sum(worker) == most
    assert (programs[0].bytes_per_core if programs else 0) == most
    assert not most or Counter(dict(zip(NODE_TYPES, worker, strict=True))) in list(per_core.values())
    assert [one.borrowed for program in programs for one in program.buffers] == [one[3] for one in buffers]


@pytest.mark.parametrize("value", YES)
def test_every_yes(value: object) -> None:
    assert read_flag({"globally_allocated": value}, "globally_allocated")


@pytest.mark.parametrize("value", [*NO, "", "no", [], 2])
def test_everything_else_is_no(value: object) -> None:
    assert not read_flag({"globally_allocated": value}, "globally_allocated")


@pytest.mark.parametrize(
    ("value", "expected"), [(7, 7), ("7", 7), (True, 1), (None, 0), ("x", 0), ([], 0), (1 << 60, 0), (1e400, 0)]
)
def test_numbers_are_written_in_many_ways(value: object, expected: int) -> None:
    assert read_number({"size": value}, "size") == expected


@pytest.mark.parametrize("value", [1, "1", "L1", "BufferType::L1", "BufferType.L1", "l1"])
def test_a_memory_has_many_names(value: object) -> None:
    assert parse_memory(value) == "L1"


@given(core_ranges())
def test_both_spellings_of_cores_are_one(ranges: list[Corners]) -> None:
    assert (
        list(parse_core_rectangles(new_spelling(ranges))) == list(parse_core_rectangles(old_spelling(ranges))) == ranges
    )


@pytest.mark.parametrize("text", ["", "{}", "[7-7 - 0-0]", "[0-0 - 99999-99999]", f"[0-0 - {'9' * 5000}-1]"])
def test_what_is_no_chip_s_cores_is_left_out(text: str) -> None:
    assert parse_core_rectangles(text) == ()
