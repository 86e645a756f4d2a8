# SPDX-License-Identifier: Apache-2.0
"""Every schema that ttnn has written for ttnn-visualizer, as changes to the one before it.

Established from the history of tt-metal's importer (``ttnn/ttnn/graph_report.py``) and, before it existed, of
``ttnn/ttnn/database.py``; 3.4 and 3.5 from the wheel of 0.81.1. The version is what ``report_metadata`` says; before
March 2026 that table did not exist.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

Tables = dict[str, list[str]]

_DEVICES = (
    "device_id num_y_cores num_x_cores num_y_compute_cores num_x_compute_cores worker_l1_size l1_num_banks "
    "l1_bank_size address_at_first_l1_bank address_at_first_l1_cb_buffer num_banks_per_storage_core num_compute_cores "
    "num_storage_cores total_l1_memory total_l1_for_tensors total_l1_for_interleaved_buffers "
    "total_l1_for_sharded_buffers cb_limit"
)
_COMPARISON = "tensor_id golden_tensor_id matches desired_pcc actual_pcc"

_AUGUST_2024 = {
    "devices": _DEVICES,
    "tensors": "tensor_id shape dtype layout memory_config device_id address buffer_type",
    "local_tensor_comparison_records": _COMPARISON,
    "global_tensor_comparison_records": _COMPARISON,
    "operations": "operation_id name duration",
    "operation_arguments": "operation_id name value",
    "stack_traces": "operation_id stack_trace",
    "input_tensors": "operation_id input_index tensor_id",
    "output_tensors": "operation_id output_index tensor_id",
    "buffers": "operation_id device_id address max_size_per_bank buffer_type buffer_layout",
    "buffer_pages": (
        "operation_id device_id address core_y core_x bank_id page_index page_address page_size buffer_type"
    ),
    "nodes": "operation_id unique_id node_operation_id name",
    "edges": "operation_id source_unique_id sink_unique_id source_output_index sink_input_index key",
    "captured_graph": "operation_id captured_graph",
}
_RANKED = (
    "devices operations operation_arguments tensors device_tensors buffers captured_graph nodes edges errors "
    "stack_traces input_tensors output_tensors tensor_lifetime tensor_consumers tensor_producers buffer_chunks"
)
_CHUNKS = (
    "operation_id device_id address bank_id core_x core_y chunk_address chunk_size page_size num_pages buffer_type"
)

Change = tuple[str, dict[str, str], dict[str, str], tuple[str, ...]]
"""Provenance, new tables, columns added to old ones, tables removed."""

CHANGES: dict[str, Change] = {
    "2024-08": ("tt-metal d94480853ac, 2024-08-22", _AUGUST_2024, {}, ()),
    "2025-01": ("tt-metal 7093fef9a4b, 2025-01-29", {"device_tensors": "tensor_id device_id address"}, {}, ()),
    "2025-10": (
        "tt-metal 7ab902fd1de, 2025-10-14",
        {"errors": "operation_id operation_name error_type error_message stack_trace timestamp"},
        {},
        (),
    ),
    "2": ("tt-metal 68aa24efb61, 2026-03-20", {"report_metadata": "key value"}, {}, ()),
    "2.1": (
        "tt-metal 5d224f28da4, 2026-05-12",
        {"source_files": "id path contents"},
        {"stack_traces": "source_file_id"},
        (),
    ),
    "2.2": (
        "tt-metal 9374a2f9317, 2026-06-08",
        {
            "tensor_lifetime": (
                "tensor_id producer_operation_id last_use_operation_id deallocate_operation_id producer_source_file "
                "producer_source_line last_use_source_file last_use_source_line"
            ),
            "tensor_consumers": "tensor_id operation_id input_index",
            "tensor_producers": "tensor_id operation_id output_index",
        },
        {},
        (),
    ),
    "3.0": ("tt-metal 607439fdefc, 2026-06-10", {"buffer_chunks": _CHUNKS}, {}, ("buffer_pages",)),
    "3.1": ("tt-metal 36c1bf14731, 2026-06-11", {}, dict.fromkeys(_RANKED.split(), "rank"), ()),
    "3.2": ("tt-metal eec20616b61, 2026-06-25: git facts in report_metadata", {}, {}, ()),
    "3.3": (
        "tt-metal 0c1dd7fdcaa, 2026-06-26",
        {},
        {"local_tensor_comparison_records": "rank", "global_tensor_comparison_records": "rank"},
        (),
    ),
    "3.4": ("ttnn 0.81.1, comment in its importer", {}, {"tensors": "storage_type"}, ()),
    "3.5": (
        "ttnn 0.81.1",
        {
            "sub_device_managers": "device_id sub_device_manager_id rank",
            "sub_devices": "device_id sub_device_manager_id sub_device_id worker_core_ranges rank",
            "operation_executions": (
                "execution_id operation_id device_id physical_device_id runtime_id global_call_count command_queue_id "
                "rank"
            ),
            "execution_sub_devices": "execution_id device_id sub_device_manager_id sub_device_id rank",
        },
        {},
        (),
    ),
}
UNVERSIONED = ("2024-08", "2025-01", "2025-10")


def schema(version: str) -> Tables:
    """The tables of a version with their columns."""
    tables: Tables = {}
    for name, (_, new, added, removed) in CHANGES.items():
        tables.update({table: columns.split() for table, columns in new.items()})
        for table, columns in added.items():
            tables[table] = [*tables[table], *columns.split()]
        for table in removed:
            del tables[table]
        if name == version:
            return tables
    raise KeyError(version)


def create(path: Path, version: str) -> sqlite3.Connection:
    """An empty database of that schema."""
    database = sqlite3.connect(path)
    for table, columns in schema(version).items():
        declared = ("rank int NOT NULL DEFAULT 0" if column == "rank" else column for column in columns)
        database.execute(f"CREATE TABLE {table} ({', '.join(declared)})")
    if version not in UNVERSIONED:
        database.execute("INSERT INTO report_metadata VALUES ('schema_version', ?)", (version,))
    return database


def copy_into(path: Path, version: str, newest: Path) -> None:
    """The content of a database of the newest schema, as far as an older one could hold it."""
    database = create(path, version)
    database.execute("ATTACH ? AS newest", (str(newest),))
    for table, columns in schema(version).items():
        known = [row[1] for row in database.execute(f"PRAGMA newest.table_info({table})")]
        shared = ", ".join(column for column in columns if column in known)
        where = " WHERE key != 'schema_version'" if table == "report_metadata" else ""
        if shared:
            database.execute(f"INSERT INTO {table} ({shared}) SELECT {shared} FROM newest.{table}{where}")
    database.commit()
    database.close()
