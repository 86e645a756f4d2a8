# SPDX-License-Identifier: Apache-2.0
"""The twin by hand: the same figures as the library's, which the oracle tests compare at random."""

from __future__ import annotations

import pytest

from ttmem.hardware import DRAM, L1, L1_SMALL, OpenSettings, open_board
from ttmem.twin.device import Device
from ttmem.twin.errors import BufferClashError, BufferOverflowError, OutOfMemoryError
from ttmem.twin.programs import DeviceProgram, StaticBuffer
from ttmem.twin.tensor_spec import CoreRange, InvalidSpecError, Shard, TensorSpec, make_core_grid


@pytest.fixture
def device():
    return Device(open_board("n150"))


def row(bytes_per_core, memory=L1):
    """A row-major tensor with one row per core."""
    from ttmem.hardware import UINT8
    from ttmem.twin.tensor_spec import ROW_MAJOR

    return TensorSpec((64, bytes_per_core), UINT8, ROW_MAJOR, memory)


def test_l1_fills_from_the_top_and_dram_from_the_bottom(device):
    assert device.allocate(TensorSpec((1, 1, 33, 70), memory=L1)).address == 1497088
    assert device.allocate(TensorSpec((32, 32))).address == 1048640
    assert device.allocate(TensorSpec((32, 32))).address == 1048640 + 2048


def test_out_of_memory_has_the_librarys_words(device):
    with pytest.raises(OutOfMemoryError) as error:
        device.allocate(TensorSpec((160, 100, 512, 1, 1)))
    assert str(error.value) == (
        "Out of Memory: Not enough space to allocate 16777216000 B DRAM buffer across 12 banks, where each bank needs "
        "to store 1398102016 B, but bank size is 1072693184 B (allocated: 0 B, free: 1072693184 B, largest free block: "
        "1072693184 B)."
    )
    assert error.value.exit_code == 1


def test_older_releases_end_the_sentence_without_a_full_stop():
    device = Device(open_board("n150", release="0.80.0"))
    with pytest.raises(OutOfMemoryError, match=r"1072693184 B\)$"):
        device.allocate(TensorSpec((160, 100, 512, 1, 1)))


def test_l1_small_explains_itself_when_it_was_not_configured(device):
    spec = TensorSpec((32, 32), memory=L1_SMALL, shard=Shard("height", 32, 32, make_core_grid(1, 1)))
    with pytest.raises(OutOfMemoryError, match="The L1_SMALL region is 0 B because it is reserved at device open"):
        device.allocate(spec)


def test_fragmentation_counts_not_the_sum(device):
    spec = row(400_000)
    first, _, third = (device.allocate(spec) for _ in range(3))
    device.free(first)
    device.free(third)
    with pytest.raises(OutOfMemoryError) as error:
        device.allocate(row(800_000))
    assert error.value.free_bytes_per_bank == 993312
    assert error.value.largest_free_bytes_per_bank == 593312


def test_a_tensor_without_elements_takes_nothing(device):
    buffer = device.allocate(TensorSpec((0, 32)))
    assert (buffer.address, device.view(DRAM).allocated_bytes_per_bank) == (0, 0)
    assert device.free(buffer)


def test_what_if_leaves_no_trace(device):
    device.allocate(row(1000))
    before = device.views()
    with device.preserve_state():
        device.allocate(row(500_000))
        assert device.views() != before
    assert device.views() == before


def test_a_program_clashes_with_the_lowest_tensor_on_any_core(device):
    # GIVEN a tensor that lives on one core only, but reserves its range on all
    low = device.allocate(TensorSpec((32, 20480), memory=L1, shard=Shard("height", 32, 20480, make_core_grid(1, 1))))
    # WHEN a program elsewhere grows into that range
    program = DeviceProgram((StaticBuffer(80_000, (CoreRange(4, 4, 5, 5),)),))
    device.launch(program)
    with pytest.raises(BufferClashError) as error:
        device.launch(DeviceProgram((StaticBuffer(200_000, (CoreRange(4, 4, 5, 5),)),)))
    # THEN it clashes all the same
    assert low.address == 188416
    assert error.value.overlap_bytes == 105824 + 200_000 - 188416
    assert "on core range [4-4 - 5-5]. L1 buffer allocated at 188416 and static circular" in str(error.value)


def test_a_program_larger_than_a_core_overflows(device):
    with pytest.raises(BufferOverflowError, match="grow to 1605824 B which is beyond max L1 size of 1499136 B"):
        device.launch(DeviceProgram((StaticBuffer(1_500_000, (CoreRange(0, 0, 0, 0),)),)))


def test_static_buffers_stack_on_shared_ranges_and_start_on_quanta(device):
    everywhere, corner = (CoreRange(0, 0, 3, 3),), (CoreRange(0, 0, 1, 1), CoreRange(3, 3, 4, 4))
    layout = device.launch(
        DeviceProgram((StaticBuffer(2048, everywhere), StaticBuffer(3000, corner), StaticBuffer(64, everywhere)))
    )
    assert layout.addresses == (105824, 107872, 110880)


def test_borrowed_buffers_take_no_static_space(device):
    layout = device.launch(
        DeviceProgram((StaticBuffer(4096, make_core_grid(2, 2), borrowed=True), StaticBuffer(64, make_core_grid(2, 2))))
    )
    assert layout.addresses == (None, 105824)


@pytest.mark.parametrize(
    ("buffers", "message"),
    [
        (
            [StaticBuffer(64, make_core_grid(1, 1), 64, (32,))],
            r"Buffer index \(32\) exceeds max number of circular buffers",
        ),
        ([StaticBuffer(65, make_core_grid(1, 1), 64)], "must be divisible by page size 64 B"),
        ([StaticBuffer(140_000, make_core_grid(1, 1), 2)], "number of CB pages 70000 is greater than 65535"),
        ([StaticBuffer(64, make_core_grid(1, 1), 64, (3,))] * 2, "Cannot add circular buffer at index 3"),
        ([StaticBuffer(64, make_core_grid(9, 1), 64)], r"exceeds device compute grid \(8x8\)"),
    ],
)
def test_programs_the_library_refuses(device, buffers, message):
    with pytest.raises(InvalidSpecError, match=message):
        device.launch(DeviceProgram(tuple(buffers)))


def test_static_buffers_over_l1_small_carry_a_warning():
    device = Device(open_board("n150", OpenSettings(l1_small_bytes=32768)))
    layout = device.launch(DeviceProgram((StaticBuffer(1_390_000, make_core_grid(1, 1)),)))
    assert layout.warnings[0].startswith("static buffers run over the L1_SMALL region")
