# SPDX-License-Identifier: Apache-2.0
"""What logs, watcher dumps, profiler tables and captures really say about circular buffers."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.command_line import ROOT
from ttmem.engines.worker.graph_nodes import find_nodes, read_programs
from ttmem.profile import source_facts
from ttmem.profile.source_facts import WAITS_FOR_DATA, WAITS_FOR_ROOM, HeldBuffer
from ttmem.readers.log_facts import read as read_lines
from ttmem.readers.profiler_csv import read as read_profiler_csv
from ttmem.readers.watcher import WatcherReader

CAPTURES = ROOT / "tests" / "data" / "captures"

LINES = [
    (
        "DEBUG: Scalable CB allocation - CB0:4, CB1:4, CB2+CB16:4 tiles. Total:12 tiles (48KB/48KB)",
        source_facts.PROGRAM_BUFFERS,
        {"cb0": 4, "cb1": 4, "cb2_and_cb16": 4, "tiles": 12, "kib": 48, "target_kib": 48},
    ),
    (
        "INFO: Large workload detected (17 A tiles, 34 B tiles) - using streaming mode",
        source_facts.STREAMING,
        {"a_tiles": 17, "b_tiles": 34},
    ),
    (
        "DEBUG: num_tiles=16, mesh_devices=2, tiles_per_shard=8",
        source_facts.WORKLOAD,
        {"num_tiles": 16, "mesh_devices": 2, "tiles_per_shard": 8},
    ),
    (
        "Distributed elementwise add verification: 16384 / 16384 passed",
        source_facts.VERIFICATION,
        {"passed": 16384, "checked": 16384},
    ),
    (
        "2025-08-18 19:08:58.663 | debug    |              Op | CB 3 :: PS = 2048, NP = 16, TOTAL = 32768 (m.cpp:1)",
        source_facts.BUFFER,
        {"index": 3, "page_bytes": 2048, "pages": 16, "bytes": 32768},
    ),
    (
        "                     Op | DEBUG    | CB 0 :: PS = 64, NP = 5",
        source_facts.BUFFER,
        {"index": 0, "page_bytes": 64, "pages": 5, "bytes": 320},
    ),
    ("in_cb :: PS = 128, NP = 4", source_facts.BUFFER, {"index": "in_cb", "page_bytes": 128, "pages": 4, "bytes": 512}),
    (
        "input_cb: 2, npages: 3, pagesize: 1088",
        source_facts.BUFFER,
        {"index": 2, "pages": 3, "page_bytes": 1088, "bytes": 3264},
    ),
    (
        "  Core(1,2) CB[5]: addr=0x1a000 page_size=2048 num_pages=2 base=0x7f00",
        source_facts.BUFFER,
        {"x": 1, "y": 2, "index": 5, "address": 0x1A000, "page_bytes": 2048, "pages": 2, "bytes": 4096},
    ),
    (
        "DFB 7 size override applied: entry_size=2048 num_entries=3",
        source_facts.BUFFER,
        {"index": 7, "page_bytes": 2048, "pages": 3, "bytes": 6144},
    ),
    (
        (
            "\x1b[33m... | warning  |  Op | CircularBuffer depth reduced due to L1 pressure (only 9216 B available), "
            "performance may regress.\x1b[0m"
        ),
        source_facts.DEPTH_REDUCED,
        {"available_bytes": 9216},
    ),
    (
        (
            "... | debug | Metal | Configured partition params: worker_l1_size:0x16DE60, l1_unreserved_base:0x19D60, "
            "l1_small_size:0x8000, disable_interleaved:false, l1_alignment:16, dram_alignment:32"
        ),
        source_facts.L1_MAP,
        {"worker_l1_bytes": 0x16DE60, "l1_base_address": 105824, "l1_small_bytes": 0x8000},
    ),
    (
        "... | debug | Loader | RISC=2, name=compute_add, size=5284 (bytes)",
        source_facts.KERNEL,
        {"processor": "RISC=2", "name": "compute_add", "bytes": 5284},
    ),
    (
        "L1 Usage Breakdown: local_cb_size = 10, global_cb_size = 20, total = 30",
        source_facts.L1_USAGE,
        {"local_bytes": 10, "global_bytes": 20, "bytes": 30},
    ),
    (
        "Trying num_slices=4: L1 usage=100, available=90",
        source_facts.L1_USAGE,
        {"slices": 4, "bytes": 100, "available_bytes": 90},
    ),
    (
        "group_norm: the 12345 B of CBs do not fit in 999 B of L1",
        source_facts.L1_USAGE,
        {"bytes": 12345, "available_bytes": 999},
    ),
    (
        (
            "Circular buffer indices are not contiguous starting at 0. This will hurt dispatch performance. "
            "Non-contiguous indices: 16. First unused index: 3. Kernels: add"
        ),
        source_facts.INDEX_GAP,
        {"first_unused": 3},
    ),
    (
        (
            "Circular Buffers (MCAST): logical_range=x, virtual_range=y, noc_xy=0x1, num_dests=4, L1_addr=0x100, "
            "config_size=272 bytes"
        ),
        source_facts.CONFIG,
        {"config_bytes": 272},
    ),
    ("Dirty CB Detected: Core (3, 4) CB 16 was not flushed!", source_facts.DIRTY, {"x": 3, "y": 4, "index": 16}),
    (
        "0:(x=1,y=2):BR: TTMEM cb=2 op=push n=4 t=123456",
        source_facts.EVENT,
        {"index": 2, "operation": "push", "pages": 4, "cycles": 123456},
    ),
]


@pytest.mark.parametrize(("line", "kind", "values"), LINES, ids=[f"{kind}-{i}" for i, (_, kind, _) in enumerate(LINES)])
def test_every_line_that_exists(line: str, kind: str, values: dict[str, object]) -> None:
    found = read_lines(["first", line])
    assert dict(found.counts) == {kind: 1}
    fact = found.get_facts(kind)[0]
    assert (fact.line, dict(fact.values)) == (2, values)


def test_debug_lines_are_counted_in_every_format() -> None:
    found = read_lines(
        [
            "2025-08-18 19:08:58.663 | debug    |          Always | x (a.cpp:1)",
            "[2025-05-01 12:00:00.123] [debug] [file.cpp:12] [Metal] message",
            "                 Always | DEBUG    | message",
            "2025-08-18 19:08:58.663 | critical |          Always | x (a.cpp:1)",
            "the word debug alone",
        ]
    )
    assert (found.lines, found.logger_lines, found.debug_lines) == (5, 4, 3)


def test_events_are_summed_up() -> None:
    texts = ["reserve n=2 t=5", "push n=2 t=10", "wait n=1 t=12", "pop n=1 t=20", "push n=1 t=30"]
    lines = [f"TTMEM cb=0 op={text}" for text in texts]
    seen = read_lines(lines).events[0]
    assert seen.pages == {"reserve": 2, "push": 3, "wait": 1, "pop": 1}
    assert (seen.highest_held, seen.left_pages, seen.first_cycle, seen.last_cycle) == (2, 2, 5, 30)


@given(st.lists(st.text(max_size=80), max_size=20))
def test_any_lines_can_be_read(lines: list[str]) -> None:
    assert read_lines(lines).lines == len(lines)
    reader = WatcherReader()
    reader.take(lines)
    reader.facts()


WATCHER = """\
Dump #1 at 10.000s
Device 0 worker core(x= 0,y= 0) virtual(x= 1,y= 1):   GW,   W,   W,   W,   W  rmsg:D1D|BNt smsg:DDDD k_ids:11|10|12
Dump #2 at 20.000s
Device 0 worker core(x= 0,y= 0) virtual(x= 1,y= 1): CWFW,CRBW,CWFW,   R,   R  rmsg:D1G|BNT smsg:GGGG \
cb[0](rcv 2!=ack 65535) k_ids:11|10|12
Device 0 worker core(x= 1,y= 0) virtual(x= 2,y= 1):   GW,   W,   W,   W,   W  rmsg:D1D|BNt smsg:DDDD k_ids:11|10|12
k_id[ 10]: reader.cpp
k_id[ 11]: writer.cpp
k_id[ 12]: compute.cpp
"""


def test_a_hang_in_a_watcher_log() -> None:
    reader = WatcherReader()
    reader.take(WATCHER.splitlines())
    found = reader.facts()
    assert found is not None
    assert (found.dumps, len(found.cores)) == (2, 2)
    (core,) = found.stuck_cores  # the last dump counts
    assert (core.x, core.y, core.line) == (0, 0, 4)
    assert core.stuck == (("BRISC", WAITS_FOR_DATA), ("NCRISC", WAITS_FOR_ROOM), ("TRISC0", WAITS_FOR_DATA))
    assert core.held == (HeldBuffer(0, 3),)  # 16-bit counters wrap
    assert found.describe_waits(core)[:4] == [
        f"BRISC (writer.cpp) {WAITS_FOR_DATA}",
        f"NCRISC (reader.cpp) {WAITS_FOR_ROOM}",
        f"TRISC0 (compute.cpp) {WAITS_FOR_DATA}",
        "cb0 holds 3 pages never taken",
    ]


def test_the_watcher_s_older_line_and_an_overflow() -> None:
    reader = WatcherReader()
    reader.take(
        [
            "Core (x=1,y=1):    CWFW,CRBW,R,R,R rmsg:D0G|BNT smsg:GGGG k_ids:4|3|5",
            (
                "Device 0 worker core(x= 1,y= 0) virtual(x= 2,y= 2): NCRISC using noc0 tried to write "
                "(NOC transaction overflows a circular buffer)"
            ),
        ]
    )
    found = reader.facts()
    assert found is not None
    assert [core.kernel_ids for core in found.stuck_cores] == [(4, 3, 5)]
    assert found.overflow_lines == (2,)


def test_an_ordinary_log_is_no_watcher_log() -> None:
    reader = WatcherReader()
    reader.take(["Metal | core(x=1,y=2): opened", "nothing"])
    assert reader.facts() is None


HEAD = (
    "OP CODE,CORE COUNT,DEVICE KERNEL DURATION [ns],DEVICE COMPUTE CB WAIT FRONT [ns],"
    "DEVICE COMPUTE CB RESERVE BACK [ns]"
)


def test_measured_stall() -> None:
    found = read_profiler_csv([HEAD, "Matmul,64,1000,400,100", "Add,64,500,,", "Sum,8,1000,3000,0", '"a,b",,x,1,1'])
    assert (found.rows, found.has_columns) == (4, True)
    assert [(row.name, row.stall_percent) for row in found.measured] == [("Matmul", 50.0), ("Sum", None)]
    assert found.stall_percent == 50.0


def test_a_table_without_the_columns_has_measured_nothing() -> None:
    found = read_profiler_csv(["OP CODE,DEVICE KERNEL DURATION [ns]", "Matmul,1000"])
    assert (found.rows, found.has_columns, found.measured, found.stall_percent) == (1, False, (), None)


def _node(kind: str, **params: object) -> dict[str, object]:
    return {"node_type": kind, "params": params}


def test_programs_of_a_small_capture() -> None:
    # GIVEN a program with two overlapping ranges, one borrowed buffer and a live tensor
    nodes = [
        _node("capture_start"),
        _node("function_start", name="ttnn.add"),
        _node("buffer_allocate", type="L1", address=200_000, device_id=0, size=10),
        _node("buffer_allocate", type="L1", address=150_000, device_id=0, size=10),
        _node("buffer_deallocate", type="L1", address=150_000, device_id=0, size=10),
        _node("circular_buffer_deallocate_all", device_id=0),
        _node(
            "circular_buffer_allocate",
            size=100,
            address=105_824,
            core_range_set="{[0-0 - 1-1]}",
            globally_allocated="0",
        ),
        _node(
            "circular_buffer_allocate",
            size=50,
            address=105_952,
            core_range_set="{[(x=1,y=1) - (x=2,y=2)]}",
            globally_allocated="0",
        ),
        _node("circular_buffer_allocate", size=9, address=1, core_range_set="{[0-0 - 0-0]}", globally_allocated="1"),
        _node("function_end", name="ttnn.add"),
        _node("function_start", name="ttnn.mul"),
        _node("dataflow_buffer_allocate", size="64", address=0, core_range_set="", borrows_memory="0"),
        _node("scratchpad_allocate", size=8, address=0, core_range_set="{[0-0 - 0-0]}"),
        _node("function_end", name="ttnn.mul"),
    ]
    # WHEN read
    first, second = read_programs(nodes)
    # THEN the core on which both ranges lie has the sum, and the tensor that is left limits it
    assert (first.operation, first.bytes_per_core, first.end_address) == ("ttnn.add", 150, 106_002)
    assert first.margin_bytes == 200_000 - 106_002
    assert (second.operation, second.bytes_per_core, second.end_address, second.margin_bytes) == (
        "ttnn.mul",
        72,
        None,
        None,
    )


@pytest.mark.parametrize("name", ["n150-normal", "n150-0.75-normal", "n150-no_dispatch", "p150-no_dispatch"])
def test_captures_agree_with_the_library_s_own_sums(name: str) -> None:
    """``extract_resource_usage_per_core`` of the library, recorded beside each capture."""
    path = CAPTURES / f"{name}.json.gz"
    nodes = find_nodes(json.loads(gzip.decompress(path.read_bytes())))
    truth = json.loads(gzip.decompress((CAPTURES / f"{name}.truth.json.gz").read_bytes()))["extracted"]
    assert nodes is not None
    programs = read_programs(nodes)
    for kind, key in (("circular", "peak_cb"), ("dataflow", "peak_dataflow_buffer")):
        own = [one.bytes_per_core for one in programs if {buffer.kind for buffer in one.buffers} == {kind}]
        assert max(own, default=0) == truth.get(key, 0)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["graph", "node_type", "params", "size", "name"]), inner, max_size=4)
        ),
        max_leaves=20,
    )
)
def test_any_json_is_a_capture_or_none(document: object) -> None:
    nodes = find_nodes(document)
    if nodes is not None:
        read_programs(nodes)


def test_captures_are_lists_of_nodes() -> None:
    assert find_nodes({"graph": [{"node_type": "x"}]}) == [{"node_type": "x"}]
    assert find_nodes({"other": 1}) is None
    assert find_nodes([1, 2]) is None
