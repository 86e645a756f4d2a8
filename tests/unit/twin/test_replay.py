# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from ttmem.base.errors import BadInputError
from ttmem.hardware import open_board
from ttmem.reports import replay as replay_report
from ttmem.twin.device import Device
from ttmem.twin.replay import ScriptRunner, read_spec, read_steps


def replay(*steps):
    runner = ScriptRunner(Device(open_board("n150")))
    return [
        replay_report.build_step(runner.step(step, where)).to_json()
        for where, step in read_steps(map(json.dumps, steps))
    ]


def test_a_script_answers_step_by_step():
    shard = {"kind": "height", "shape": [64, 512], "grid": [8, 1], "orientation": "col"}
    answers = replay(
        {"alloc": "a", "shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "l1"},
        {"alloc": "b", "shape": [512, 512], "memory": "L1", "shard": shard},
        {"free": "a"},
        {"alloc": "c", "shape": [3], "dtype": "uint8", "layout": "row_major", "memory": "L1"},
        {"alloc": "d", "shape": [160, 100, 512, 1, 1]},
        {"alloc": "e", "shape": [33, 33], "shard": {**shard, "shape": [33, 33]}, "memory": "L1"},
        {"free": "d"},
    )
    assert [{k: v for k, v in a.items() if k != "message"} for a in answers] == [
        {"ok": True, "address": 1497088, "bytes_per_bank": 2048, "taken_bytes_per_bank": 2048},
        {"ok": True, "address": 1431552, "bytes_per_bank": 65536, "taken_bytes_per_bank": 65536},
        {"ok": True},
        {"ok": True, "address": 1499104, "bytes_per_bank": 16, "taken_bytes_per_bank": 32},
        {
            "ok": False,
            "error": "oom",
            "need": 1398102016,
            "allocated": 0,
            "free": 1072693184,
            "largest_free": 1072693184,
        },
        {"ok": False, "error": "invalid", "need": None, "allocated": None, "free": None, "largest_free": None},
        {"ok": True},
    ]
    assert answers[5]["message"] == "Physical shard shape (33, 33) must be tile {32, 32} sized!"


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"free": "x"}, "steps:1: free of 'x', which is not allocated"),
        ({"shape": [1]}, "steps:1: a step needs `alloc` or `free`"),
        ({"alloc": "a", "shape": "1x2"}, "steps:1: `shape` must be a list of integers"),
        ({"alloc": "a", "shape": [1], "dtype": "bfloat61"}, "did you mean 'bfloat16'?"),
        ({"alloc": "a", "shape": [1], "colour": "red"}, "steps:1: unknown key 'colour'"),
        ({"alloc": "a", "shape": [1], "shard": {"kind": "height"}}, "steps:1: `shard` needs kind and shape"),
        ({"alloc": "a", "shape": [1], "shard": {"kind": "nd", "shape": [1], "grid": [1]}}, "`grid` must be"),
    ],
)
def test_bad_steps_say_where(step, message):
    with pytest.raises(BadInputError) as error:
        replay(step)
    assert message in str(error.value)


def test_broken_json_says_line_and_column():
    with pytest.raises(BadInputError, match=r"s\.jsonl:3: not JSON"):
        list(read_steps(['{"free": 1}', "# a comment", "{"], "s.jsonl"))


def test_a_live_name_is_not_allocated_twice():
    with pytest.raises(BadInputError, match="'a' is allocated already"):
        replay({"alloc": "a", "shape": [1]}, {"alloc": "a", "shape": [1]})


def test_nd_shards_and_core_ranges_can_be_written_too():
    spec = read_spec(
        {
            "alloc": "a",
            "shape": [4, 64, 64],
            "memory": "L1",
            "shard": {"kind": "nd", "shape": [1, 32, 64], "ranges": [[0, 0, 1, 1], [4, 4, 4, 4]]},
        }
    )
    assert spec.shard is not None
    assert sum(cores.cores for cores in spec.shard.ranges) == 5
