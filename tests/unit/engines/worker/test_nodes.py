# SPDX-License-Identifier: Apache-2.0
"""Graph nodes read for memory. The nodes are shortened ones of real captures of ttnn 0.81.1."""

from __future__ import annotations

from typing import Any

from ttmem.engines.worker.graph_nodes import ProgramNeeds, compute_program_keys, read_program_needs
from ttmem.engines.worker.ledger import GIVE, LAUNCH, TAKE, Move, read_moves
from ttmem.engines.worker.program_needs import align_programs

SOFTMAX = "SoftmaxDeviceOperation/SoftmaxProgramFactory"


def node(kind: str, **params: Any) -> dict[str, Any]:
    return {"node_type": kind, "params": params, "arguments": params.pop("arguments", [])}


def device_operation(name: str, *inside: dict[str, Any], hit: bool = True) -> list[dict[str, Any]]:
    started = node(
        "function_start",
        name=f"{name}DeviceOperation",
        program_cache_hit=hit,
        program_factory_type=f"ttnn::prim::{name}ProgramFactory",
        arguments=["Shape([1, 1, 64, 64])", "0x55f40cb19370"],
    )
    return [started, *inside, node("function_end", name=f"{name}DeviceOperation")]


def buffer(kind: str, memory: int, address: int, size: int) -> dict[str, Any]:
    return node(kind, buffer_type=memory, address=address, max_size_per_bank=size, size=size * 64, type="L1")


def test_moves_keep_their_order_and_launches_know_their_program() -> None:
    nodes = device_operation(
        "Softmax",
        node("function_start", name="tt::tt_metal::create_device_tensor"),
        buffer("buffer_allocate", 1, 1400832, 32768),
        node("function_end", name="tt::tt_metal::create_device_tensor"),
        node("circular_buffer_deallocate_all", device_id=1),
        buffer("buffer_deallocate", 3, 1499104, 16),
    )
    assert read_moves(nodes) == [
        Move(TAKE, "L1", 1400832, 32768, 32768 * 64),
        Move(LAUNCH, program=SOFTMAX),
        Move(GIVE, "L1_SMALL", 1499104, 16, 1024),
    ]


def test_a_program_that_ends_is_not_launched_once_more() -> None:
    cleared = node("circular_buffer_deallocate_all", device_id=1)
    # WITHOUT a cache a program ends with its operation; that of a closed device may end at any time
    alone = device_operation("Softmax", cleared, node("program_execution"), cleared, hit=False)
    assert read_moves([cleared, *alone, cleared]) == [Move(LAUNCH, program=SOFTMAX)]
    inside = [node("function_start", name="Tensor::cpu"), cleared, node("function_end", name="Tensor::cpu")]
    assert read_moves(inside) == []
    # TWO programs of one operation are two, and older releases do not name a device operation as one
    twice = device_operation("Softmax", cleared, node("program_execution"), cleared, node("program_execution"))
    assert read_moves(twice) == [Move(LAUNCH, program=SOFTMAX)] * 2
    old = [node("function_start", name="Pool2D"), cleared, node("function_end", name="Pool2D")]
    assert read_moves(old) == [Move(LAUNCH)]


def test_needs_are_those_of_the_worst_core_without_borrowed_buffers() -> None:
    # GIVEN buffers on overlapping cores, two of them laid over tensors
    nodes = device_operation(
        "Softmax",
        node("circular_buffer_deallocate_all", device_id=1),
        node("circular_buffer_allocate", size=4096, core_range_set="{[0-0 - 7-7]}", globally_allocated="0"),
        node("circular_buffer_allocate", size=9999, core_range_set="{[0-0 - 7-7]}", globally_allocated="1"),
        node("dataflow_buffer_allocate", size=2048, core_range_set="{[0-0 - 1-1], [5-5 - 5-5]}", borrows_memory="0"),
        node("dataflow_buffer_allocate", size=8888, core_range_set="{[0-0 - 1-1]}", borrows_memory=1),
        node("scratchpad_allocate", size=16, core_range_set="{[5-5 - 5-5]}"),
    )
    assert read_program_needs(nodes) == [ProgramNeeds(SOFTMAX, 4096, 2048, 16)]


def test_a_program_without_buffers_needs_nothing() -> None:
    nodes = device_operation("Move", node("circular_buffer_deallocate_all", device_id=1))
    assert read_program_needs(nodes) == [ProgramNeeds("MoveDeviceOperation/MoveProgramFactory", 0, 0, 0)]


def test_the_key_does_not_depend_on_pointers_but_on_arguments() -> None:
    one = device_operation("Softmax")
    again = device_operation("Softmax")
    again[0]["arguments"] = ["Shape([1, 1, 64, 64])", "0x7fffffffffff"]
    other = device_operation("Softmax")
    other[0]["arguments"] = ["Shape([1, 1, 64, 96])", "0x55f40cb19370"]
    assert (
        compute_program_keys(one, hits=True)
        == compute_program_keys(again, hits=True)
        != compute_program_keys(other, hits=True)
    )


def test_a_missed_program_is_told_from_a_cached_one() -> None:
    nodes = [*device_operation("Softmax"), *device_operation("Matmul", hit=False)]
    assert compute_program_keys(device_operation("Softmax")) == []
    assert compute_program_keys(nodes) == compute_program_keys(device_operation("Matmul", hit=False)) != []
    assert compute_program_keys(nodes, hits=True) == compute_program_keys(device_operation("Softmax"), hits=True)


def test_programs_left_out_without_dispatch_are_known_only_when_they_borrow_everything() -> None:
    move, halo, pool = "MoveDeviceOperation/MoveShardedProgramFactory", "Halo/H", "Pool2D/MultiCore"
    found = [ProgramNeeds(halo, 16640, 0, 0), ProgramNeeds(pool, 14336, 0, 0)]
    # a sharded move only lays buffers over tensors
    assert align_programs([halo, move, pool], found) == (found[0], ProgramNeeds(move, 0, 0, 0), found[1])
    # anything else that is missing is not known
    assert align_programs([halo, "Other/O", pool], found) == (found[0], None, found[1])
    # the same program twice is matched in order
    twice = [ProgramNeeds(halo, 1, 0, 0), ProgramNeeds(halo, 2, 0, 0)]
    assert align_programs([halo, halo], twice) == tuple(twice)
