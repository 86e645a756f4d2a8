# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.captures import (
    capture,
    operation_names,
    truth_before_steps,
    unpacked_capture,
    unpacked_report,
    views_before_operations,
)
from ttmem import Profile, TtmemError, read
from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.failure import failure, failures
from ttmem.analysis.lifetimes import lifetimes
from ttmem.profile import profile_file
from ttmem.profile.model import MEMORIES, STATE_NAMES, VIEW_ALLOCATED
from ttmem.readers.capture.graph import read as read_graph_capture
from ttmem.readers.registry import ReadOptions
from ttmem.reports import profile_files

DRAM_CONFIG = (
    "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt)"
)


class Graph:
    """A node list, written as the recorder writes it."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.node("capture_start", None)

    def node(self, kind: str, params: dict[str, Any] | None, **more: Any) -> int:
        self.nodes.append(
            {
                "counter": len(self.nodes),
                "node_type": kind,
                "params": params,
                "connections": [],
                "arguments": [],
                "input_tensors": [],
                "stacking_level": 0,
                **more,
            }
        )
        return len(self.nodes) - 1

    def start(self, name: str, *inputs: int) -> int:
        return self.node("function_start", {"name": name, "inputs": str(len(inputs))}, input_tensors=list(inputs))

    def end(self, name: str, **params: Any) -> int:
        return self.node("function_end", {"name": name, **params})

    def buffer(self, kind: str, address: int, size: int, *, memory: int = 0, device: int = 1) -> int:
        return self.node(
            f"buffer_{kind}",
            {
                "address": address,
                "buffer_type": memory,
                "device_id": device,
                "layout": "INTERLEAVED",
                "max_size_per_bank": size,
                "page_size": 32,
                "size": size * 12,
                "type": "DRAM",
            },
        )

    def tensor(self, number: int, address: int, shape: str = "Shape([32, 32])") -> int:
        return self.node(
            "tensor",
            {
                "tensor_id": number,
                "address": address,
                "device_id": 1,
                "buffer_type": 0,
                "shape": shape,
                "dtype": "DataType::BFLOAT16",
                "layout": "Layout::TILE",
                "memory_config": DRAM_CONFIG,
            },
        )

    def read(self, folder: Path) -> Profile:
        path = folder / "graph.json"
        path.write_text(json.dumps(self.nodes))
        return read(path)


def states(profile: Profile, memory: int = 0) -> list[tuple[str, int, int]]:
    timeline = profile.timelines[0]
    return [
        (
            STATE_NAMES[timeline.state_kind[block]],
            int(timeline.state_operation[block]),
            int(profile.views[timeline.state_view[block, memory], VIEW_ALLOCATED]),
        )
        for block in range(len(timeline.state_kind))
        if timeline.state_view[block, memory] >= 0
    ]


# --- what a graph means -------------------------------------------------------------------------------------------


def test_operations_are_the_outermost_functions_and_tensor_calls_happen_in_between(tmp_path: Path) -> None:
    graph = Graph()
    graph.start("ttnn::add")
    graph.start("BinaryNgDeviceOperation")
    graph.buffer("allocate", 4096, 1024)
    graph.end("BinaryNgDeviceOperation")
    graph.end("ttnn::add")
    graph.start("Tensor::deallocate")
    graph.buffer("deallocate", 4096, 1024)
    graph.end("Tensor::deallocate")
    graph.start("tt::tt_metal::create_device_tensor")
    graph.buffer("allocate", 8192, 256)
    graph.end("tt::tt_metal::create_device_tensor")
    graph.start("ttnn::relu")
    graph.end("ttnn::relu")

    profile = graph.read(tmp_path)

    assert operation_names(profile) == ["ttnn.add", "ttnn.relu"]
    assert states(profile) == [
        ("before operation", 0, 0),
        ("snapshot", -1, 1024),
        ("before operation", 1, 256),
        ("snapshot", -1, 256),
    ]


def test_what_is_freed_or_read_but_never_allocated_is_older_than_the_capture(tmp_path: Path) -> None:
    graph = Graph()
    read_tensor = graph.tensor(3, 1048640)
    graph.start("ttnn::add", read_tensor)
    graph.buffer("allocate", 1060000, 32)  # 12 banks explain it, 7 and 8 do not
    graph.end("ttnn::add")
    graph.start("ttnn::deallocate")
    graph.buffer("deallocate", 1050688, 64)
    graph.end("ttnn::deallocate")

    profile = graph.read(tmp_path)

    # THEN one tile of bfloat16 in one of twelve banks, and what was freed, are there from the start
    assert states(profile) == [("before operation", 0, 2112), ("before operation", 1, 2144), ("snapshot", -1, 2080)]
    live = alive_at_peak(profile, "DRAM")
    assert live is not None
    assert [(life.name, life.producer_index, life.last_use_index) for life in live.tensors] == [
        ("tensor 3", None, 0),
        ("buffer made outside operations", None, None),
        ("buffer of ttnn.add", 0, None),
    ]


def test_a_failing_operation_that_never_ends_does_not_swallow_the_next_ones(tmp_path: Path) -> None:
    # GIVEN releases without abort marks: everything later looks nested in the function that threw
    graph = Graph()
    for name in ("ttnn::conv2d", "CopyDeviceOperation", "tt::tt_metal::create_device_tensor"):
        graph.start(name)
    for name in ("ttnn::relu", "ttnn::exp"):
        graph.start(name)
        graph.end(name)
    profile = graph.read(tmp_path)
    assert operation_names(profile) == ["ttnn.conv2d", "ttnn.relu", "ttnn.exp"]
    found = failure(profile)
    assert found is not None
    assert (found.operation_index, found.survived) == (0, True)
    assert "ttnn.conv2d did not complete" in found.message


def test_two_failures_in_a_row_with_abort_marks(tmp_path: Path) -> None:
    graph = Graph()
    for _ in range(2):
        graph.start("CopyDeviceOperation")
        graph.start("tt::tt_metal::create_device_tensor")
        graph.end("tt::tt_metal::create_device_tensor", aborted="true")
    graph.start("UnaryDeviceOperation")
    graph.end("UnaryDeviceOperation")
    profile = graph.read(tmp_path)
    assert operation_names(profile) == ["CopyDeviceOperation", "CopyDeviceOperation", "UnaryDeviceOperation"]
    assert [item.operation for item in profile.timelines[0].failures] == [0, 1]


def test_a_function_that_fails_inside_and_is_caught_is_no_failure(tmp_path: Path) -> None:
    graph = Graph()
    graph.start("ttnn::conv2d")
    graph.start("tt::tt_metal::create_device_tensor")
    graph.end("tt::tt_metal::create_device_tensor", aborted="true")
    graph.start("Conv2dDeviceOperation")
    graph.end("Conv2dDeviceOperation")
    graph.end("ttnn::conv2d")
    profile = graph.read(tmp_path)
    assert operation_names(profile) == ["ttnn.conv2d"]
    assert failures(profile) == []


def test_an_allocation_that_fails_outside_operations_belongs_to_none(tmp_path: Path) -> None:
    graph = Graph()
    graph.start("ttnn::add")
    graph.end("ttnn::add")
    graph.start("tt::tt_metal::create_device_tensor")
    graph.end("tt::tt_metal::create_device_tensor", aborted="true")
    found = failure(graph.read(tmp_path))
    assert found is not None
    assert (found.operation_index, found.survived) == (None, False)


def test_error_nodes_carry_the_text(tmp_path: Path) -> None:
    graph = Graph()
    graph.start("ttnn::add")
    text = (
        "Out of Memory: Not enough space to allocate 100 B DRAM buffer across 12 banks, where each bank needs to store "
        "2097152 B, but bank size is 1000 B"
    )
    graph.node("error", {"error_type": "exception", "error_message": text, "error_operation": "ttnn::add"})
    graph.end("ttnn::add")
    found = failure(graph.read(tmp_path))
    assert found is not None
    assert (found.failure_class, found.operation_index, found.line) == ("oom/too-big", 0, 0)


def test_programs_count_on_the_fullest_core_of_one_chip(tmp_path: Path) -> None:
    # GIVEN two chips with the same program, cores of different load, and buffers that borrow a tensor's memory
    graph = Graph()
    graph.start("ttnn::add")
    graph.node("circular_buffer_deallocate_all", {"device_id": 1})
    for device in ("0", "1"):
        for cores, size, shared in (
            ("{[0-0 - 7-7]}", "100", "0"),
            ("{[(x=0,y=0) - (x=1,y=0)], [(x=5,y=5) - (x=5,y=5)]}", "30", "0"),
            ("{[0-0 - 7-7]}", "9999", "1"),
        ):
            graph.node(
                "circular_buffer_allocate",
                {
                    "size": size,
                    "core_range_set": cores,
                    "device_id": device,
                    "globally_allocated": shared,
                    "address": "0",
                },
            )
        graph.node("dataflow_buffer_allocate", {"size": 7, "core_range_set": "{[5-5 - 5-5]}", "device_id": device})
        graph.node(
            "dataflow_buffer_allocate",
            {"size": 5000, "core_range_set": "{[5-5 - 5-5]}", "device_id": device, "borrows_memory": "1"},
        )
        graph.node("scratchpad_allocate", {"size": 2, "core_range_set": "{[5-5 - 6-6]}", "device_id": device})
    graph.end("ttnn::add")
    graph.start("ttnn::relu")
    graph.end("ttnn::relu")

    needs = graph.read(tmp_path).timelines[0].programs_l1

    assert needs is not None
    assert needs.circular_buffers.tolist() == [130, 0]  # and the next operation does not inherit them
    assert needs.dataflow_buffers.tolist() == [7, 0]
    assert needs.scratchpads.tolist() == [2, 0]


def test_the_device_with_most_bytes_is_shown(tmp_path: Path) -> None:
    graph = Graph()
    graph.start("ttnn::add")
    graph.buffer("allocate", 4096, 64, device=1)
    graph.buffer("allocate", 4096, 4096, device=2)
    graph.end("ttnn::add")
    profile = graph.read(tmp_path)
    assert states(profile)[-1][2] == 4096
    assert any("this is device 2" in warning for warning in profile.source.warnings)


def test_numbers_may_be_text(tmp_path: Path) -> None:
    nodes = capture("n150-normal")
    for node in nodes:
        for key, value in (node["params"] or {}).items():
            if isinstance(value, int) and not isinstance(value, bool):
                node["params"][key] = str(value)
    path = tmp_path / "text.json"
    path.write_text(json.dumps(nodes))
    wanted = read(unpacked_capture("n150-normal", tmp_path))
    assert states(read(path)) == states(wanted)
    assert states(read(path), memory=1) == states(wanted, memory=1)


def test_a_buffer_is_where_it_was_allocated(tmp_path: Path) -> None:
    # GIVEN tensors that are said to be in memories that there are not
    nodes = capture("n150-normal")
    for node in nodes:
        if config := (node["params"] or {}).get("memory_config"):
            node["params"]["memory_config"] = config.replace("BufferType::L1", "BufferType::L")
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(nodes))
    # THEN their buffers are listed in the memory that the allocator took
    profile, wanted = read(path), read(unpacked_capture("n150-normal", tmp_path))
    assert all(life.type.memory in MEMORIES for life in lifetimes(profile, profile.timelines[0], None))
    found, usual = (alive_at_peak(one, "L1") for one in (profile, wanted))
    assert found is not None
    assert usual is not None
    assert [life.bytes_per_bank for life in found.tensors] == [life.bytes_per_bank for life in usual.tensors]
    assert profile_files.render_html(profile)


def test_the_oldest_release_that_runs_completely(tmp_path: Path) -> None:
    profile = read(unpacked_capture("n150-0.75-report", tmp_path))
    found, wanted = views_before_operations(profile), truth_before_steps("n150-0.75-report")
    assert found == [{memory: views[memory] for memory in mine} for views, mine in zip(wanted, found, strict=True)]
    needs = profile.timelines[0].programs_l1
    assert needs is not None
    # THEN its circular buffers are complete, but for programs that list none at all
    assert needs.measured.tolist() == [1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1]
    assert needs.circular_buffers[0] == 90112  # the same as dataflow buffers of today


def test_the_oldest_database(tmp_path: Path) -> None:
    profile = read(unpacked_report("n150-0.75-report", tmp_path))
    wanted = truth_before_steps("n150-0.75-report")[:11]  # its importer loses what follows a failure
    found = views_before_operations(profile)
    assert found == [{memory: views[memory] for memory in mine} for views, mine in zip(wanted, found, strict=True)]
    assert failure(profile) is not None


# --- files --------------------------------------------------------------------------------------------------------


def test_names_and_locations(tmp_path: Path) -> None:
    folder = tmp_path / "resnet"
    folder.mkdir()
    profile = read(unpacked_capture("n150-report", folder))
    assert profile.name == "resnet"  # every capture is called capture.json
    assert profile.source.kind == "ttnn-graph-capture"
    assert profile.forms.location(0) == "recorder.py:69"
    assert profile.facts == {"system": "wormhole", "ttnn": "0.81.1"}
    found = failure(profile)
    assert found is not None
    assert (found.failure_class, found.memory, found.operation_index) == ("oom/too-big", "L1", 11)
    assert found.numbers["bytes_per_bank"] == 2097152


def test_packed_captures_are_read(tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    path.write_bytes(gzip.compress(json.dumps(capture("n150-normal")).encode()))
    profile = read(path)
    assert profile.name == "run"
    assert len(profile.timelines[0]) == 16


def test_one_capture_per_rank(tmp_path: Path) -> None:
    report = capture("n150-report")
    for rank in (0, 1):
        report["metadata"] |= {"rank": rank, "world_size": 2}
        (tmp_path / f"graph_capture_{rank + 1}_of_2.json").write_text(json.dumps(report))
    profile = read(tmp_path)
    assert [timeline.rank for timeline in profile.timelines] == [0, 1]
    assert profile.to_json()["operations"]["executed"] == 26


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    profile = read(unpacked_capture("n150-report", tmp_path))
    again = profile_file.decode(profile_file.encode(profile))
    assert again.to_json() == profile.to_json()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"node_type": "capture_start"', "the JSON is damaged or cut"),
        ('[{"node_type": 5}]', "not a graph capture: Expected `str`, got `int` - at `$[0].node_type`"),
        ('[{"node_type": "capture_start", "params": []}]', "$[0].params"),
        ('{"graph": {}}', "not a graph capture: Expected `array`"),
        ('{"graph": []}', "the captured graph is empty"),
        ('[{"node_type": "capture_start"}]', "no operation in the captured graph"),
        ('[{"node_type": "x", "params": {"a": ' + "[" * 5000, "the JSON is damaged or cut"),
    ],
)
def test_bad_captures_say_what_and_where(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(TtmemError) as raised:
        read(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)
    assert raised.value.hint


def test_a_capture_cut_anywhere_is_bad_input_or_less_of_the_same(tmp_path: Path) -> None:
    content = json.dumps(capture("n150-normal"))
    path = tmp_path / "cut.json"
    for share in range(1, 20):
        path.write_text(content[: len(content) * share // 20])
        with pytest.raises(TtmemError, match="damaged or cut"):
            read(path)


NODE_KINDS = st.sampled_from(
    [
        "function_start",
        "function_end",
        "buffer_allocate",
        "buffer_deallocate",
        "tensor",
        "buffer",
        "circular_buffer_allocate",
        "circular_buffer_deallocate_all",
        "error",
        "unheard_of",
    ]
)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-5, 1 << 40), st.text(max_size=8), st.just("{[0-0 - 3-3]}"))
KEYS = st.sampled_from(
    [
        "name",
        "address",
        "buffer_type",
        "device_id",
        "max_size_per_bank",
        "size",
        "page_size",
        "layout",
        "shape",
        "dtype",
        "core_range_set",
        "aborted",
        "globally_allocated",
        "tensor_id",
        "memory_config",
        "error_message",
    ]
)
NODES = st.builds(
    lambda kind, params, connections, inputs: {
        "node_type": kind,
        "params": params,
        "connections": connections,
        "input_tensors": inputs,
    },
    NODE_KINDS,
    st.one_of(st.none(), st.dictionaries(KEYS, VALUES, max_size=10)),
    st.lists(st.integers(-3, 40), max_size=3),
    st.lists(st.integers(-3, 40), max_size=3),
)


@given(st.lists(NODES, max_size=30))
def test_no_node_list_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, nodes: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.getbasetemp() / "random.json"
    path.write_text(json.dumps(nodes))
    try:
        profile = read_graph_capture(path, ReadOptions("random"))
    except TtmemError:
        return
    profile_file.decode(profile_file.encode(profile))  # every column points where it may
    profile.to_json()
