# SPDX-License-Identifier: Apache-2.0
"""A program's buffers together: sums, conditions that exclude each other, addresses, overflow and clash."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.scan_sources import DATA, config, host, scan_code, scan_folder
from ttmem.circular_buffers.scan.host.programs import ProgramTotals
from ttmem.circular_buffers.scan.scanning import assess
from ttmem.hardware import open_board
from ttmem.twin.programs import DeviceProgram, StaticBuffer, lay_out
from ttmem.twin.tensor_spec import CoreRange

N150 = open_board("n150")


def program(code: str, **bindings: int) -> ProgramTotals:
    [found] = assess(".", [scan_code(code)], bindings=bindings, memory_map=N150).programs
    return found


def test_addresses_are_those_of_the_twin() -> None:
    # GIVEN sizes that are no multiple of the alignment
    found = program(
        host(config("1000", page="1000") + config("96", index="1", page="32") + config("7", index="2", page="7"))
    )
    one_core = (CoreRange(0, 0, 0, 0),)
    twin = lay_out(DeviceProgram(tuple(StaticBuffer(size, one_core) for size in (1000, 96, 7))), N150)
    assert found.addresses == twin.addresses
    assert found.end_address == twin.end_address == N150.l1_base_address + 1024 + 96 + 7
    assert found.free_bytes_per_core == N150.architecture.l1_bytes_per_core - twin.end_address


def test_borrowed_buffers_take_nothing_and_unknown_ones_are_counted() -> None:
    found = program((DATA / "descriptor" / "factory.cpp").read_text())
    assert (found.bytes_per_core, found.unknown, len(found.buffers)) == (2048, 2, 4)
    known = scan_folder(DATA / "descriptor", dtype="bfloat16", block_tiles=4, double_buffer=0).programs[0]
    assert (known.bytes_per_core, known.unknown) == (4 * 2048 + 2048 + 4 * 2048, 0)


def test_conditions_that_exclude_each_other_are_not_added_up() -> None:
    code = host(
        f"if (wide) {{ {config('8192')} }} else {{ {config('2048')} {config('4096', index='1')} }}\n"
        f"if (wide) {{ {config('1024', index='2', page='1024')} }}\n"
        f"if (n > 4) {{ {config('512', index='3', page='512')} }}\n" + config("256", index="4", page="256")
    )
    assert program(code).bytes_per_core == 8192 + 1024 + 512 + 256
    assert program(code, wide=0).bytes_per_core == 2048 + 4096 + 512 + 256
    assert program(code, wide=0, n=1).bytes_per_core == 2048 + 4096 + 256


def test_sums_per_core_range() -> None:
    code = """
        void build(Program& program, const CoreRangeSet& senders, const CoreRangeSet& receivers) {
            CreateCircularBuffer(program, senders, CircularBufferConfig(2048, {{0, f}}).set_page_size(0, 2048));
            CreateCircularBuffer(program, receivers, CircularBufferConfig(4096, {{1, f}}).set_page_size(1, 2048));
            CreateCircularBuffer(program, senders, CircularBufferConfig(1024, {{2, f}}).set_page_size(2, 1024));
        }
    """
    found = program(code)
    assert [(one.core_ranges, one.bytes_per_core, one.buffers) for one in found.ranges] == [
        ("senders", 3072, 2),
        ("receivers", 4096, 1),
    ]
    # which cores these are is not known: the worst case is that they share one
    assert found.bytes_per_core == 7168
    assert not found.ranges_are_known


def test_literal_cores_are_placed_exactly() -> None:
    code = """
        void build(Program& program) {
            CoreCoord a = {0, 0};
            CoreRange b({1, 0}, {3, 0});
            CreateCircularBuffer(program, a, CircularBufferConfig(2048, {{0, f}}).set_page_size(0, 2048));
            CreateCircularBuffer(program, b, CircularBufferConfig(4096, {{0, f}}).set_page_size(0, 2048));
        }
    """
    found = program(code)
    assert found.ranges_are_known
    assert found.addresses == (N150.l1_base_address, N150.l1_base_address)
    assert found.end_address == N150.l1_base_address + 4096


def test_loops_multiply() -> None:
    code = host(f"for (uint32_t i = 0; i < 3; i++) {{ {config('2048', index='i')} }}")
    assert program(code).bytes_per_core == 3 * 2048


def test_a_loop_around_a_program_does_not_multiply_its_buffers() -> None:
    code = "void sweep(uint32_t n) {\n  for (uint32_t i = 0; i < 5; i++) {\n    Program program = CreateProgram();\n"
    code += f"    for (uint32_t j = 0; j < 2; j++) {{ {config('2048', index='j')} }}\n  }}\n}}\n"
    assert program(code).bytes_per_core == 2 * 2048


@pytest.mark.parametrize(("tensors", "clashes"), [(1_380_000, False), (1_391_264, False), (1_391_296, True)])
def test_a_clash_begins_with_the_first_shared_byte(tmp_path: Path, tensors: int, clashes: bool) -> None:
    (tmp_path / "host.cpp").write_text(host(config("2048")))
    found = scan_folder(tmp_path, l1_tensor_bytes=tensors)
    assert [one.rule for one in found.findings] == (["R13"] if clashes else [])


@examples(60)
@given(st.lists(st.integers(1, 300_000), min_size=1, max_size=12))
def test_every_program_is_placed_as_the_twin_places_it(total_bytes: list[int]) -> None:
    code = host("".join(config(str(size), index=str(index), page=str(size)) for index, size in enumerate(total_bytes)))
    found = program(code)
    twin = lay_out(DeviceProgram(tuple(StaticBuffer(size, (CoreRange(0, 0, 0, 0),)) for size in total_bytes)), N150)
    assert found.addresses == twin.addresses
    assert found.bytes_per_core == sum(total_bytes)
