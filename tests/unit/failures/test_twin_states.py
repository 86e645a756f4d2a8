# SPDX-License-Identifier: Apache-2.0
"""For any state of the twin, the library's message is explained with that state's numbers, and remedies do help."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from ttmem.failures.diagnosis.diagnose import Diagnosis, Remedy, diagnose, explain
from ttmem.failures.diagnosis.failure_state import LiveTensor
from ttmem.failures.text.context import Context
from ttmem.failures.text.find import find_failures
from ttmem.hardware import DATA_TYPES, DRAM, L1, TRACE, OpenSettings, open_board
from ttmem.twin.device import Device
from ttmem.twin.errors import BufferClashError, OutOfMemoryError
from ttmem.twin.programs import DeviceProgram, StaticBuffer, check_regions, lay_out
from ttmem.twin.tensor_spec import TILE, TensorSpec, make_core_grid
from unit.failures.states import Clashed, Refused, refused_allocations, refused_programs, tiles

pytestmark = pytest.mark.slow

SLOW = settings(
    max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def diagnosis_of(refused: Refused, around: str = "") -> Diagnosis:
    (diagnosis,) = explain(f"RuntimeError: {refused.error.message}\n{around}", board=refused.board)
    return diagnosis


@given(refused_allocations())
@SLOW
def test_the_message_of_a_state_is_explained_with_its_numbers(refused: Refused) -> None:
    # GIVEN the state that the twin knows
    view = refused.device.view(refused.spec.memory)
    need = refused.device.place(refused.spec).bytes_per_bank
    # WHEN only its message is read, without being told the board
    (diagnosis,) = explain(refused.error.message)
    # THEN the numbers are those of the state
    assert dict(diagnosis.failure.numbers) == {
        "requested_bytes": refused.error.total_bytes,
        "banks": refused.error.banks,
        "bytes_per_bank": need,
        "bank_bytes": view.total_bytes_per_bank,
        "allocated": view.allocated_bytes_per_bank,
        "free": view.free_bytes_per_bank,
        "largest_free": view.largest_free_bytes_per_bank,
    }
    # AND so is the class
    if need > view.total_bytes_per_bank:
        expected = "oom/too-big"
    elif need > view.free_bytes_per_bank:
        expected = "oom/capacity"
    else:
        expected = "oom/fragmented"
        assert need > view.largest_free_bytes_per_bank
    event(expected)
    assert (diagnosis.failure.failure_class, diagnosis.confidence) == (expected, "certain")
    # AND the generation of the chip is told from the sizes alone, or left open: an L1 bank of 1,395,584 B is a
    # Blackhole's with 64 KiB of L1_SMALL and was a Wormhole's without any
    truth, board = refused.device.memory_map.architecture.name, diagnosis.board
    assert board.architecture == truth or (refused.spec.memory is L1 and board.confidence in ("possible", "unknown"))


@given(refused_allocations())
@SLOW
def test_the_tensor_that_was_refused_is_among_the_candidates(refused: Refused) -> None:
    guess = diagnosis_of(refused).tensor
    placement = refused.device.place(refused.spec)
    assert guess is not None
    event(guess.confidence)
    if refused.spec.shard is None:
        assert placement.aligned_page_bytes in guess.page_candidates
    # What is called likely is right, and a tile's format is never another one's.
    if guess.confidence == "likely":
        assert guess.page_bytes == placement.aligned_page_bytes
    if guess.dtype is not None and refused.spec.layout is TILE and refused.spec.shard is None:
        assert guess.layout != "tile" or guess.dtype == refused.spec.dtype.name


def fits(device: Device, spec: TensorSpec) -> bool:
    with device.preserve_state():
        try:
            device.allocate(spec)
        except OutOfMemoryError:
            return False
        return True


def remedies(diagnosis: Diagnosis) -> dict[str, Remedy]:
    return {remedy.id: remedy for remedy in diagnosis.remedies}


@given(refused_allocations())
@SLOW
def test_another_format_saves_what_is_claimed(refused: Refused) -> None:
    # GIVEN a refused tensor that is recognised, by its figures alone or because the text names it
    spec = refused.spec
    named = f"shape=Shape({list(spec.shape)}), dtype=DataType::{spec.dtype.name.upper()}, layout=Layout::TILE"
    for diagnosis in (diagnosis_of(refused), diagnosis_of(refused, named)):
        check_formats(refused, diagnosis)


def check_formats(refused: Refused, diagnosis: Diagnosis) -> None:
    spec, device = refused.spec, refused.device
    if spec.layout is not TILE or diagnosis.tensor is None or diagnosis.tensor.dtype != spec.dtype.name:
        return
    for name, dtype in (("bfloat8-request", "bfloat8_b"), ("not-float32", "bfloat16")):
        remedy = remedies(diagnosis).get(name)
        if remedy is None:
            continue
        # WHEN the remedy is replayed
        lighter = replace(spec, dtype=DATA_TYPES.find(dtype))
        saved = device.place(spec).bytes_per_bank - device.place(lighter).bytes_per_bank
        # THEN it saves that, and fits exactly when it says so; from a format that only fits the figures nothing follows
        event(f"{name}: {remedy.solves}")
        assert remedy.saves_bytes_per_bank == saved
        assert remedy.saves_bytes == saved * device.memory_map.pool(spec.memory).banks
        is_enough = fits(device, lighter)
        assert remedy.solves == (is_enough if diagnosis.tensor.has_dtype or not is_enough else None)


@given(refused_allocations())
@SLOW
def test_parts_are_as_small_as_claimed_and_fit(refused: Refused) -> None:
    spec, device = refused.spec, refused.device
    placement = device.place(spec)
    if spec.layout is not TILE and placement.bytes_per_bank < 64 * placement.aligned_page_bytes:
        return  # a few gigantic rows: what is claimed supposes that a bank holds 64 pages or more
    for name in ("split-request", "more-chips", "slice-pool-and-conv", "split-batch"):
        remedy = remedies(diagnosis_of(refused)).get(name)
        if remedy is None or remedy.saves_bytes_per_bank is None:
            continue
        parts = next(int(word) for word in f"{remedy.do} {remedy.why}".split() if word.isdigit())
        if spec.layout is TILE:
            part = tiles(-(-placement.paging.pages // parts), spec.dtype, spec.memory)
        else:
            part = replace(spec, shape=(-(-spec.shape[0] // parts), spec.shape[1]))
        event(name)
        assert placement.bytes_per_bank - device.place(part).bytes_per_bank >= remedy.saves_bytes_per_bank
        assert fits(device, part), (spec, part)
        assert remedy.solves is None  # the other parts need room too, unless each is freed before the next


@given(refused_allocations(memory=L1))
@SLOW
def test_what_goes_to_dram_takes_nothing_of_l1(refused: Refused) -> None:
    remedy = remedies(diagnosis_of(refused, "y = ttnn.gelu(x)"))["request-to-dram"]
    assert remedy.saves_bytes_per_bank == refused.device.place(refused.spec).bytes_per_bank
    before = refused.device.view(L1)
    with refused.device.preserve_state():
        refused.device.allocate(replace(refused.spec, memory=DRAM, shard=None))
        assert refused.device.view(L1) == before
    assert remedy.solves


@given(refused_allocations())
@SLOW
def test_fragmentation_goes_away_when_the_order_changes(refused: Refused) -> None:
    # GIVEN a bank that is only fragmented
    diagnosis = diagnosis_of(refused)
    if diagnosis.failure.failure_class != "oom/fragmented":
        return
    name = "largest-first" if refused.spec.memory is DRAM else "move-long-lived"
    assert remedies(diagnosis)[name].solves is None  # whether a program can change the order is not known
    # WHEN the same tensors are allocated again, the refused one first THEN all of them fit
    again = Device(open_board(refused.board, refused.settings))
    again.allocate(refused.spec)
    for buffer in refused.live:
        again.allocate(buffer.placement.spec)


@given(refused_allocations(memory=L1))
@SLOW
def test_l1_small_is_recognised_and_its_bytes_come_back(refused: Refused) -> None:
    remedy = remedies(diagnosis_of(refused)).get("smaller-l1-small")
    small = refused.settings.l1_small_bytes
    assert (remedy is not None) == bool(small)
    if remedy is not None:
        without = open_board(refused.board, OpenSettings()).l1.bytes_per_bank
        assert without - refused.device.memory_map.l1.bytes_per_bank == remedy.saves_bytes_per_bank == small
        # Room at the top is a promise only where the sum is too small: then it is denied.
        if remedy.solves is False:
            wider = Device(open_board(refused.board, OpenSettings()))
            live = [wider.allocate(buffer.placement.spec) for buffer in refused.live]
            assert len(live) == len(refused.live)
            assert not fits(wider, refused.spec)


@given(refused_allocations(memory=L1))
@SLOW
def test_spread_over_all_cores_a_shard_is_smaller(refused: Refused) -> None:
    remedy = remedies(diagnosis_of(refused)).get("all-cores")
    if remedy is None or refused.spec.shard is None:
        return
    device, placement = refused.device, refused.device.place(refused.spec)
    spread = tiles(placement.paging.pages, refused.spec.dtype, L1)
    event("spread")
    assert placement.bytes_per_bank - device.place(spread).bytes_per_bank >= (remedy.saves_bytes_per_bank or 0)
    if remedy.solves:
        assert fits(device, spread)


@given(refused_programs())
@SLOW
def test_programs_that_do_not_fit_are_explained_with_their_numbers(refused: Clashed) -> None:
    (diagnosis,) = explain(f"TT_THROW: {refused.error.message}", board=refused.board)
    numbers = diagnosis.failure.numbers
    assert numbers["region_end"] == refused.error.region_end_address
    l1_bytes = refused.device.memory_map.architecture.l1_bytes_per_core
    if isinstance(refused.error, BufferClashError):
        assert diagnosis.failure.failure_class == "buffers/clash"
        assert numbers["l1_buffer_address"] == refused.device.lowest_l1_address
        assert numbers["overlap_bytes"] == refused.error.overlap_bytes
    else:
        assert diagnosis.failure.failure_class == "buffers/overflow"
        assert diagnosis.derived["excess_bytes"] == refused.error.region_end_address - l1_bytes
    assert diagnosis.failure.texts["buffer_family"] == refused.error.family
    event(diagnosis.failure.failure_class)


@given(refused_programs())
@SLOW
def test_tensors_in_the_way_are_named_and_their_leaving_helps(refused: Clashed) -> None:
    # GIVEN a clash, and a profile that knows where each L1 tensor lies
    if not isinstance(refused.error, BufferClashError):
        return
    live = [
        LiveTensor(str(buffer.address), "L1", buffer.placement.taken_bytes_per_bank, address=buffer.address)
        for buffer in refused.live
        if buffer.placement.taken_bytes_per_bank
    ]
    (failure,) = find_failures(f"TT_THROW: {refused.error.message}")
    diagnosis = diagnose(failure, board=refused.board, live=live, context=Context())
    remedy = remedies(diagnosis)["tensor-to-dram"]
    assert remedy.solves is True
    # WHEN those that begin below the end of the buffers leave
    device = refused.device
    lowest = device.lowest_l1_address
    with device.preserve_state():
        for buffer in refused.live:
            if buffer.address < refused.error.region_end_address:
                device.free(buffer)
        # THEN the program runs, and the ceiling has risen by what was claimed
        device.launch(refused.program)
        now = device.lowest_l1_address or device.memory_map.architecture.l1_bytes_per_core
        assert lowest is not None
        assert now - lowest == remedy.saves_bytes_per_bank


@given(st.sampled_from(["n150", "p150"]), st.integers(1_500_000, 60_000_000))
@SLOW
def test_narrower_rows_let_the_buffers_fit(board: str, row_bytes: int) -> None:
    # GIVEN a program that buffers one whole row on one core
    memory_map = open_board(board)
    layout = lay_out(DeviceProgram((StaticBuffer(row_bytes, make_core_grid(1, 1)),)), memory_map)
    with pytest.raises(Exception, match="beyond max L1") as caught:
        check_regions(layout.regions, "circular", memory_map, None)
    (diagnosis,) = explain(str(caught.value))
    remedy = remedies(diagnosis)["narrower-rows"]
    parts = int(remedy.do.split("a row is ")[1].split()[0])
    # WHEN the row is cut into so many parts THEN it fits, and saves at least what was claimed
    narrower = lay_out(DeviceProgram((StaticBuffer(-(-row_bytes // parts), make_core_grid(1, 1)),)), memory_map)
    check_regions(narrower.regions, "circular", memory_map, None)
    assert layout.end_address - narrower.end_address >= (remedy.saves_bytes_per_bank or 0) > 0
    assert remedy.solves


@pytest.mark.parametrize("total", [50_000_000, 12 * (1 << 20), 1_000_000_000])
def test_a_trace_region_is_told_from_the_bank_and_comes_back_without_it(total: int) -> None:
    # GIVEN a device opened with a trace region
    device = Device(open_board("n150", OpenSettings(trace_region_bytes=total)))
    region = device.memory_map.trace.bytes_per_bank
    spec = tiles(12 * device.memory_map.dram.bytes_per_bank // 2048 + 12, DATA_TYPES.find("bfloat16"), DRAM)
    with pytest.raises(OutOfMemoryError) as caught:
        device.allocate(spec)
    # WHEN / THEN its size is found in the bank that is left
    (diagnosis,) = explain(str(caught.value))
    remedy = remedies(diagnosis)["smaller-trace-region"]
    assert remedy.saves_bytes_per_bank == region
    without = open_board("n150").dram.bytes_per_bank
    assert without - device.memory_map.dram.bytes_per_bank == region
    assert device.memory_map.pool(TRACE).bytes_per_bank == region


def test_padding_that_is_undone_saves_what_is_claimed() -> None:
    # GIVEN a tensor whose last dimension is 2, named near its failure
    spec = TensorSpec((1, 4096, 24, 64, 2))
    device = Device(open_board("n150"))
    pool = device.memory_map.dram
    filler = device.allocate(tiles(12 * (pool.bytes_per_bank // 2048 - 10_000), spec.dtype, DRAM))
    with pytest.raises(OutOfMemoryError) as caught:
        device.allocate(spec)
    text = f"args = (ttnn.Tensor([..], shape=Shape([1, 4096, 24, 64, 2]), dtype=DataType::BFLOAT16)\n{caught.value}"
    # WHEN / THEN the remedy names another arrangement, and it takes that much less
    (diagnosis,) = explain(text)
    remedy = remedies(diagnosis)["undo-padding"]
    shape = tuple(int(size) for size in remedy.do.split(" to ")[1].split(":")[0].split("x"))
    other = replace(spec, shape=shape)
    assert other.elements == spec.elements
    assert device.place(spec).bytes_per_bank - device.place(other).bytes_per_bank == remedy.saves_bytes_per_bank
    assert remedy.solves is fits(device, other) is True
    device.free(filler)


@given(refused_allocations())
@SLOW
def test_with_every_address_known_the_picture_is_the_bank_itself(refused: Refused) -> None:
    # GIVEN a capture, which knows where every buffer lies
    device, memory = refused.device, refused.spec.memory
    live = [
        LiveTensor(f"t{buffer.address}", memory.name, buffer.placement.taken_bytes_per_bank, address=buffer.address)
        for buffer in refused.live
        if buffer.placement.taken_bytes_per_bank
    ]
    (failure,) = find_failures(refused.error.message)
    picture = diagnose(failure, board=refused.board, live=live).picture
    assert picture is not None
    if not live:
        assert picture.is_schematic
        return
    # THEN the free blocks are those of the free list
    free = [(stretch.start, stretch.bytes) for stretch in picture.stretches if stretch.kind == "free"]
    assert free == [(start, size) for start, size, taken in device.blocks(memory) if not taken]
    assert picture.request is not None
    assert picture.request.bytes == refused.error.bytes_per_bank
