# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.captures import operation_names, unpacked_report, views_before_operations
from support.examples import examples
from support.schema_history import CHANGES, UNVERSIONED, copy_into, create, schema
from ttmem import Profile, TtmemError, read
from ttmem.analysis.failure import failure
from ttmem.profile.model import STATE_NAMES, VIEW_ALLOCATED

DEVICE: dict[str, Any] = {
    "device_id": 0,
    "worker_l1_size": 1499136,
    "l1_num_banks": 64,
    "l1_bank_size": 1393312,
    "address_at_first_l1_cb_buffer": 105824,
    "cb_limit": 1393312,
}
DRAM_BASE, L1_TOP = 1048640, 1499136


class Report:
    """A report written row by row."""

    def __init__(self, path: Path, version: str = "3.5") -> None:
        self.path = path
        self.database = create(path, version)

    def add(self, table: str, **row: Any) -> Report:
        names, marks = ", ".join(row), ", ".join("?" for _ in row)
        self.database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
        return self

    def operation(self, number: int, name: str, alive: dict[int, int], *, buffer_type: Any = 0, **more: Any) -> Report:
        self.add("operations", operation_id=number, name=name, duration=0.0, **more)
        for address, size in alive.items():
            self.add(
                "buffers",
                operation_id=number,
                device_id=0,
                address=address,
                max_size_per_bank=size,
                buffer_type=buffer_type,
                **more,
            )
        return self

    def read(self) -> Profile:
        self.database.commit()
        self.database.close()
        return read(self.path)


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., Report]:
    return lambda version="3.5": Report(tmp_path / "db.sqlite", version)


def states(profile: Profile, timeline: int = 0, memory: int = 0) -> list[tuple[str, int, int]]:
    """(kind, operation, allocated bytes per bank) of one memory."""
    chosen = profile.timelines[timeline]
    return [
        (
            STATE_NAMES[chosen.state_kind[block]],
            int(chosen.state_operation[block]),
            int(profile.views[chosen.state_view[block, memory], VIEW_ALLOCATED]),
        )
        for block in range(len(chosen.state_kind))
        if chosen.state_view[block, memory] >= 0
    ]


@pytest.mark.parametrize("version", CHANGES)
def test_every_schema_gives_the_same_history(tmp_path: Path, version: str) -> None:
    newest = tmp_path / "newest"
    newest.mkdir()
    unpacked_report("n150-report", newest)
    folder = tmp_path / "model"
    folder.mkdir()
    copy_into(folder / "db.sqlite", version, newest / "db.sqlite")

    profile, wanted = read(folder), read(newest)

    assert profile.name == "model"
    assert profile.facts["schema"] == ("unversioned" if version in UNVERSIONED else version)
    assert operation_names(profile) == operation_names(wanted)
    # Only the newest report has its cluster descriptor, which tells nothing here that the device does not.
    assert views_before_operations(profile) == views_before_operations(wanted)
    assert states(profile) == states(wanted)
    assert states(profile, memory=1) == states(wanted, memory=1)
    if "errors" in schema(version):
        found = failure(profile)
        assert found is not None
        assert (found.failure_class, found.operation_index, found.survived) == ("oom/too-big", 11, True)
    else:
        assert failure(profile) is None


def test_the_newest_schema_is_the_one_of_the_real_report(tmp_path: Path) -> None:
    unpacked_report("n150-report", tmp_path)
    with sqlite3.connect(tmp_path / "db.sqlite") as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        real = {table: sorted(row[1] for row in database.execute(f"PRAGMA table_info({table})")) for table in tables}
    database.close()
    assert real == {table: sorted(columns) for table, columns in schema("3.5").items()}


def test_locations_come_from_the_innermost_frame_and_no_source_is_read(tmp_path: Path) -> None:
    profile = read(unpacked_report("n150-report", tmp_path))
    assert profile.forms.location(0).startswith("recorder.py:")
    assert "secret" not in repr(profile.to_json())


def test_the_table_of_buffers_alone_is_a_floor_and_says_so(report: Callable[..., Report]) -> None:
    # GIVEN two operations without captured graphs; the first one's result is at the second address
    made = report("3.3").add("devices", **DEVICE)
    made.operation(1, "ttnn.add", {DRAM_BASE: 4096, DRAM_BASE + 4096: 2048})
    made.operation(2, "ttnn.relu", {DRAM_BASE + 4096: 2048, DRAM_BASE + 6144: 8192})
    spec = {
        "shape": "Shape([32, 32])",
        "dtype": "DataType.BFLOAT16",
        "layout": "Layout.TILE",
        "memory_config": "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM)",
        "device_id": 0,
        "buffer_type": 0,
    }
    made.add("tensors", tensor_id=7, address=DRAM_BASE + 4096, **spec)
    made.add("output_tensors", operation_id=1, output_index=0, tensor_id=7)
    made.add("input_tensors", operation_id=2, input_index=0, tensor_id=7)

    profile = made.read()

    assert states(profile) == [
        ("before operation", 0, 4096),
        ("before operation", 1, 6144),
        ("snapshot", -1, 10240),
    ]
    buffers = profile.timelines[0].buffers
    assert buffers is not None
    rows = zip(
        (buffers.names[number] for number in buffers.name),
        buffers.producer.tolist(),
        buffers.last_use.tolist(),
        buffers.bytes_per_bank.tolist(),
        strict=True,
    )
    assert list(rows) == [
        ("buffer made outside operations", -1, -1, 4096),
        ("tensor 7", 0, 1, 2048),
        ("buffer of ttnn.relu", 1, -1, 8192),
    ]
    assert any("is a floor, not the peak" in warning for warning in profile.source.warnings)
    needs = profile.timelines[0].programs_l1
    assert needs is not None


def test_ranks_are_processes(report: Callable[..., Report]) -> None:
    made = report()
    for rank, size in ((0, 1024), (1, 4096)):
        made.add("devices", **DEVICE, rank=rank)
        made.operation(1, "ttnn.add", {DRAM_BASE: size}, rank=rank)
    profile = made.read()
    assert [timeline.rank for timeline in profile.timelines] == [0, 1]
    assert [states(profile, rank)[-1][2] for rank in (0, 1)] == [1024, 4096]


def test_buffer_types_are_numbers_or_names_and_other_memories_are_skipped(report: Callable[..., Report]) -> None:
    made = report().add("devices", **DEVICE)
    made.operation(1, "ttnn.add", {L1_TOP - 1024: 1024}, buffer_type="L1")
    for number, (buffer_type, size) in enumerate([(1, 2048), ("BufferType::DRAM", 512), (2, 999), ("MARS", 999)]):
        made.add(
            "buffers",
            operation_id=1,
            device_id=0,
            address=L1_TOP - 8192 + number,
            max_size_per_bank=size,
            buffer_type=buffer_type,
        )
    profile = made.read()
    assert [states(profile, memory=memory)[-1][2] for memory in (0, 1)] == [512, 3072]


def test_unknown_columns_and_tables_and_text_numbers_are_tolerated(report: Callable[..., Report]) -> None:
    made = report()
    made.database.execute("ALTER TABLE buffers ADD COLUMN colour text DEFAULT 'red'")
    made.database.execute("CREATE TABLE surprise (x)")
    made.add("devices", **{key: str(value) for key, value in DEVICE.items()})
    made.operation(1, "ttnn.add", {DRAM_BASE: 2048})
    made.database.execute("UPDATE buffers SET max_size_per_bank = '2048', address = '1048640', operation_id = '1'")
    profile = made.read()
    assert states(profile)[-1][2] == 2048
    assert profile.views[profile.timelines[0].state_view[0, 1], :2].tolist() == [64, 1393312]


def test_rows_in_any_order(report: Callable[..., Report]) -> None:
    made = report().add("devices", **DEVICE)
    made.operation(2, "ttnn.relu", {DRAM_BASE: 2048})
    made.operation(1, "ttnn.add", {DRAM_BASE: 1024})
    made.add("buffers", operation_id=2, device_id=0, address=DRAM_BASE + 4096, max_size_per_bank=512, buffer_type=0)
    profile = made.read()
    assert operation_names(profile) == ["ttnn.add", "ttnn.relu"]
    assert [held for _, _, held in states(profile)] == [1024, 1024, 2560]


def test_the_fullest_of_several_devices_is_shown(report: Callable[..., Report]) -> None:
    made = report().add("devices", **DEVICE).add("devices", **{**DEVICE, "device_id": 5})
    made.operation(1, "ttnn.add", {DRAM_BASE: 1024})
    made.add("buffers", operation_id=1, device_id=5, address=DRAM_BASE, max_size_per_bank=4096, buffer_type=0)
    profile = made.read()
    assert states(profile)[-1][2] == 4096
    assert any("not shown: device 0" in warning for warning in profile.source.warnings)


def test_an_error_without_an_operation_is_kept(report: Callable[..., Report]) -> None:
    made = report("3.3").add("devices", **DEVICE).operation(1, "ttnn.add", {DRAM_BASE: 1024})
    made.add(
        "errors",
        operation_id=0,
        operation_name="ttnn.conv2d",
        error_type="incomplete_operation",
        error_message="Operation 'ttnn.conv2d' started but never completed (likely crashed)",
    )
    found = failure(made.read())
    assert found is not None
    assert found.operation_index is None
    assert "ttnn.conv2d" in found.message
    assert not found.survived


def test_a_damaged_captured_graph_costs_its_operation_only(report: Callable[..., Report]) -> None:
    made = report().add("devices", **DEVICE)
    made.operation(1, "ttnn.add", {DRAM_BASE: 1024}).operation(2, "ttnn.relu", {DRAM_BASE: 1024})
    made.add("captured_graph", operation_id=1, captured_graph='[{"node_type": ')
    made.add("captured_graph", operation_id=2, captured_graph=json.dumps([{"node_type": "capture_start"}]))
    profile = made.read()
    assert len(profile.timelines[0]) == 2
    assert any("captured graph of operation 1 cannot be read" in warning for warning in profile.source.warnings)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:3000]), "cannot be read as a database"),
        (lambda path: path.write_bytes(b"SQLite format 3\x00" + bytes(200)), "cannot be read as a database"),
        (lambda path: path.write_bytes(path.read_bytes()[:100] + b"\xff" * 4000), "cannot be read as a database"),
        (lambda path: sqlite3.connect(path).execute("DROP TABLE buffers").connection.close(), "no table 'buffers'"),
        (
            lambda path: sqlite3.connect(path).execute("DROP TABLE operations").connection.close(),
            "no table 'operations'",
        ),
    ],
)
def test_databases_that_cannot_be_used(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    unpacked_report("n150-report", tmp_path)
    damage(tmp_path / "db.sqlite")
    with pytest.raises(TtmemError) as raised:
        read(tmp_path)
    assert message in str(raised.value)
    assert str(tmp_path / "db.sqlite") in str(raised.value)
    assert raised.value.exit_code == 2


def test_an_empty_report_is_bad_input(report: Callable[..., Report]) -> None:
    with pytest.raises(TtmemError, match="holds no operation"):
        report().read()


def test_reading_leaves_no_trace_beside_the_database(tmp_path: Path) -> None:
    unpacked_report("n150-report", tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    read(tmp_path / "db.sqlite")
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 255)), min_size=1, max_size=40))
@examples(60)
def test_a_damaged_database_is_a_profile_or_a_reason(
    tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "damaged"
    if not folder.exists():
        folder.mkdir()
        unpacked_report("n150-report", folder)
        (folder / "db.sqlite").rename(folder / "whole")
    content = bytearray((folder / "whole").read_bytes())
    for place, byte in damage:
        content[place % len(content)] = byte
    (folder / "db.sqlite").write_bytes(content)
    with contextlib.suppress(TtmemError):  # anything else that is raised fails the test
        read(folder).to_json()
