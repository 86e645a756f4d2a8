# SPDX-License-Identifier: Apache-2.0
"""The tables of a ttnn-visualizer database, schema 3.3: its readers fail where one is missing, so all are made."""

from __future__ import annotations

import sqlite3

VERSION = "3.3"
BUFFER_TYPES = {"DRAM": 0, "L1": 1, "HOST": 2, "L1_SMALL": 3, "TRACE": 4}
"""The library's numbers of its memories."""

_RANK = "rank int NOT NULL DEFAULT 0"
_COMPARISON = f"tensor_id int, golden_tensor_id int, matches int, desired_pcc float, actual_pcc float, {_RANK}"

DEVICE_COLUMNS = (
    "device_id",
    "num_y_cores",
    "num_x_cores",
    "num_y_compute_cores",
    "num_x_compute_cores",
    "worker_l1_size",
    "l1_num_banks",
    "l1_bank_size",
    "address_at_first_l1_bank",
    "address_at_first_l1_cb_buffer",
    "num_banks_per_storage_core",
    "num_compute_cores",
    "num_storage_cores",
    "total_l1_memory",
    "total_l1_for_tensors",
    "total_l1_for_interleaved_buffers",
    "total_l1_for_sharded_buffers",
    "cb_limit",
)

TABLES = {
    "devices": f"{', '.join(f'{name} int' for name in DEVICE_COLUMNS)}, {_RANK}",
    "operations": f"operation_id int, name text, duration float, {_RANK}, UNIQUE(operation_id, rank)",
    "operation_arguments": f"operation_id int, name text, value text, {_RANK}",
    "tensors": "tensor_id int, shape text, dtype text, layout text, memory_config text, device_id int, address int, "
    f"buffer_type int, {_RANK}, UNIQUE(tensor_id, rank)",
    "device_tensors": f"tensor_id int, device_id int, address int, {_RANK}",
    "buffers": "operation_id int, device_id int, address int, max_size_per_bank int, buffer_type int, "
    f"buffer_layout int, {_RANK}",
    "buffer_chunks": "operation_id int, device_id int, address int, bank_id int, core_x int, core_y int, "
    f"chunk_address int, chunk_size int, page_size int, num_pages int, buffer_type int, {_RANK}",
    "captured_graph": f"operation_id int, captured_graph text, {_RANK}",
    "nodes": f"operation_id int, unique_id int, node_operation_id int, name text, {_RANK}",
    "edges": "operation_id int, source_unique_id int, sink_unique_id int, source_output_index int, "
    f"sink_input_index int, key int, {_RANK}",
    "input_tensors": f"operation_id int, input_index int, tensor_id int, {_RANK}",
    "output_tensors": f"operation_id int, output_index int, tensor_id int, {_RANK}",
    "tensor_lifetime": "tensor_id int, producer_operation_id int, last_use_operation_id int, "
    "deallocate_operation_id int, producer_source_file text, producer_source_line int, last_use_source_file text, "
    f"last_use_source_line int, {_RANK}, UNIQUE(tensor_id, rank)",
    "tensor_consumers": "tensor_id int, operation_id int, input_index int, "
    f"{_RANK}, UNIQUE(tensor_id, operation_id, input_index, rank)",
    "tensor_producers": "tensor_id int, operation_id int, output_index int, "
    f"{_RANK}, UNIQUE(tensor_id, operation_id, output_index, rank)",
    "source_files": "id INTEGER PRIMARY KEY, path text UNIQUE NOT NULL, contents text",
    "stack_traces": f"operation_id int, stack_trace text, source_file_id int REFERENCES source_files(id), {_RANK}",
    "errors": "operation_id int, operation_name text, error_type text, error_message text, stack_trace text, "
    f"timestamp text, {_RANK}",
    "local_tensor_comparison_records": f"{_COMPARISON}, UNIQUE(tensor_id, rank)",
    "global_tensor_comparison_records": f"{_COMPARISON}, UNIQUE(tensor_id, rank)",
    "report_metadata": "key text UNIQUE, value text",
}
INDEXES = {
    "idx_buffers_operation_id": "buffers (operation_id)",
    "idx_buffers_address": "buffers (address)",
    "idx_input_tensors_tensor_id": "input_tensors (tensor_id)",
    "idx_output_tensors_tensor_id": "output_tensors (tensor_id)",
    "idx_stack_traces_source_file_id": "stack_traces (source_file_id)",
}


def create_tables(database: sqlite3.Connection) -> None:
    for table, columns in TABLES.items():
        database.execute(f"CREATE TABLE {table} ({columns})")


def create_indexes(database: sqlite3.Connection) -> None:
    """After the rows: building an index once is quicker than keeping it up to date."""
    for name, columns in INDEXES.items():
        database.execute(f"CREATE INDEX {name} ON {columns}")
