# SPDX-License-Identifier: Apache-2.0
"""Operations by hand: what each allocates, launches and leaves behind; the oracle tests compare them at random."""

from __future__ import annotations

import re

import pytest

from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT8_B, DRAM, FLOAT32, L1, UINT8, open_board
from ttmem.twin.device import Device
from ttmem.twin.errors import BufferClashError, OutOfMemoryError
from ttmem.twin.operations import RECORDS, Allocate, Call, Launch, ProgramCache, plan_call, run_call
from ttmem.twin.operations.run import RefusedError
from ttmem.twin.tensor_spec import ROW_MAJOR, TensorSpec

N150 = open_board("n150")


def plan(name, *inputs, memory=None, **arguments):
    return plan_call(Call(name, inputs, arguments, memory), N150)


def static(a_plan):
    return [step.buffer_bytes for step in a_plan.steps if isinstance(step, Launch)]


def allocated(a_plan):
    return [(str(step.spec.memory), step.spec.shape) for step in a_plan.steps if isinstance(step, Allocate)]


def tensor(*shape, dtype=None, memory=DRAM):
    spec = TensorSpec(shape, memory=memory)
    return spec if dtype is None else TensorSpec(shape, dtype, memory=memory)


SQUARE = tensor(1, 1, 64, 64)


@pytest.mark.parametrize(
    ("a_plan", "expected"),
    [
        (plan("relu", SQUARE), [(4096, 4096)]),
        (plan("ttnn.gelu", tensor(64, 64, dtype=FLOAT32)), [(8192, 8192)]),
        (plan("add", SQUARE, SQUARE), [(4096, 4096, 4096)]),
        (plan("add", SQUARE, tensor(1, 1, 1, 64)), [(4096, 4096, 4096, 4096)]),
        (plan("multiply", tensor(64, 64, dtype=BFLOAT8_B)), [(2176, 2048, 2176)]),
        (plan("typecast", SQUARE, dtype="bfloat8_b"), [(4096, 2176)]),
        (plan("clone", SQUARE), [(4096,)]),
        (plan("concat", SQUARE, SQUARE, dim=-1), [(4096,)]),
        (plan("transpose", SQUARE, dim1=-2, dim2=-1), [(4096, 4096)]),
        (plan("permute", tensor(1, 3, 64, 64), dims=(0, 2, 1, 3)), [(4096, 512)]),
        (plan("permute", tensor(1, 32, 64, 64), dims=(0, 2, 1, 3)), [(4096,)]),
        (plan("slice", SQUARE, begins=[0, 0, 32, 0], ends=[1, 1, 64, 64]), [(4096, 16)]),
        (plan("pad", SQUARE, padding=[(0, 0), (0, 0), (0, 32), (0, 32)]), [(4096, 2048)]),
        (plan("sum", SQUARE, dim=-1, keepdim=True), [(4096, 2048, 4096)]),
        (plan("sum", tensor(1, 1, 64, 128), dim=-1, keepdim=True), [(16384, 2048, 4096)]),
    ],
)
def test_static_buffers_of_simple_operations(a_plan, expected):
    assert a_plan.confidence == "exact"
    assert static(a_plan) == expected


def test_softmax_keeps_a_row_of_tiles():
    assert sum(static(plan("softmax", tensor(1, 1, 64, 64)))[0]) == 30720
    # THEN the stable form, which is the default, keeps the maxima too
    assert static(plan("softmax", tensor(1, 1, 64, 64), numeric_stable=False)) == [(8192, 8192, 4096, 12288)]
    padded = [sum(static(plan("softmax", tensor(1, 1, 64, 50), numeric_stable=stable))[0]) for stable in (True, False)]
    assert padded == [2 * 8192 + 2 * 4096 + 14336, 2 * 8192 + 4096 + 12288]
    # AND rows that do not fit a core are streamed, 80 tiles at a time
    streamed = plan("softmax", tensor(1, 1, 32, 65536))
    assert (streamed.confidence, static(streamed)[0][0]) == ("exact", 80 * 2048)
    # AND along the height the tiles of a column are kept
    assert static(plan("softmax", tensor(1, 1, 64, 64), dim=-2)) == [(4096, 6144, 4096, 8192, 8192, 8192, 4096)]
    # AND along outer dimensions a few, however many there are
    assert static(plan("softmax", tensor(2, 64, 64), dim=0)) == [(4096, 4096, 16384, 2048, 4096)]


def test_matmul_with_a_program_config_is_exact():
    config = {"new": "ttnn.MatmulMultiCoreReuseMultiCastProgramConfig", "compute_with_storage_grid_size": (8, 8)}
    config |= {"per_core_M": 4, "per_core_N": 4, "in0_block_w": 4, "out_subblock_h": 1, "out_subblock_w": 1}
    big = tensor(1, 1, 1024, 1024)
    assert sum(static(plan("matmul", big, big, program_config=config))[0]) == 163840
    bfp8 = tensor(1, 1, 1024, 1024, dtype=BFLOAT8_B)
    assert sum(static(plan("matmul", bfp8, bfp8, program_config=config))[0]) == 119808
    auto = plan("matmul", big, big)
    assert (auto.confidence, static(auto)) == ("exact", [(65536, 65536, 32768)])
    assert allocated(auto) == [("DRAM", (1, 1, 1024, 1024))]


def test_where_results_go_without_a_wish():
    in_l1 = tensor(1, 1, 64, 64, memory=L1)
    assert allocated(plan("relu", in_l1)) == [("L1", (1, 1, 64, 64))]
    assert allocated(plan("concat", in_l1, in_l1, dim=0)) == [("DRAM", (2, 1, 64, 64))]
    assert allocated(plan("relu", in_l1, memory=DRAM)) == [("DRAM", (1, 1, 64, 64))]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 1, 1024, 64), (1024, 64)),
        ((2, 3, 64, 32), (6, 64, 32)),
        ((6, 64, 32), (384, 32)),
        ((5, 33, 64), (1, 5, 33, 64)),
    ],
)
def test_reshapes_that_keep_the_tile_grid_are_views(before, after):
    view = plan("reshape", tensor(*before), shape=list(after))
    assert (view.steps, view.results[0][0]) == ((), -1)


def test_a_reshape_that_moves_data_leaves_a_table_in_dram():
    # GIVEN the reshape of a sequence into heads
    a_plan = plan("reshape", tensor(1, 1024, 768), shape=[1, 1024, 12, 64])
    # THEN a table of 1 MiB stays with the program, half of the 2 MiB that a flat copy would be
    output, table = (step for step in a_plan.steps if isinstance(step, Allocate))
    assert output.spec.shape == (1, 1024, 12, 64)
    assert table.cache_key is not None
    assert table.spec.logical_bytes == 1024 * 2 * 512
    # AND a width of one element that becomes rows needs a segment for each element it moves
    narrow = plan("reshape", tensor(1, 1, 320, 1), shape=[1, 1, 1, 320])
    assert [s.spec.shape for s in narrow.steps if isinstance(s, Allocate)][1] == (10, 128)


def test_the_table_is_made_once_and_outlives_both_tensors():
    device, cache = Device(N150), ProgramCache()
    source = device.allocate(tensor(1, 1024, 768))
    call = Call("reshape", (source.placement.spec,), {"shape": [1, 1024, 12, 64]})
    for _ in range(2):
        result = run_call(device, call, [source], cache)
        assert result.buffer is not None
        device.free(result.buffer)
    device.free(source)
    assert device.view(DRAM).allocated_bytes_per_bank == 87552
    cache.clear(device)
    assert device.view(DRAM).allocated_bytes_per_bank == 0


def test_block_floats_are_permuted_through_bfloat16():
    a_plan = plan("permute", tensor(1, 4, 320, 5, dtype=BFLOAT8_B, memory=L1), dims=(0, 2, 1, 3))
    assert [str(s.spec.dtype) for s in a_plan.steps if isinstance(s, Allocate)] == ["bfloat16", "bfloat16", "bfloat8_b"]
    assert static(a_plan) == [(2176, 4096), (4096, 512), (4096, 2176)]


def test_padding_inside_the_last_tile_is_written_in_place():
    a_plan = plan("pad", tensor(1, 3, 50, 8), padding=[(0, 0), (0, 0), (0, 0), (0, 3)])
    assert (allocated(a_plan), a_plan.results[0][0]) == ([], -1)
    assert static(a_plan) == [(4096, 2048, 2048, 4096)]


def test_an_operation_without_a_rule_says_so():
    a_plan = plan("nobody_made_this", SQUARE)
    assert (a_plan.confidence, a_plan.note) == ("unknown", "no rule for nobody_made_this")
    assert "nobody_made_this" not in RECORDS


def test_a_clash_gives_the_output_back():
    # GIVEN an L1 with 12,000 bytes left below its tensors
    device, cache = Device(N150), ProgramCache()
    device.allocate(TensorSpec((64, 1393312 - 12_000), UINT8, ROW_MAJOR, L1))
    source = device.allocate(tensor(1, 1, 64, 64))
    before = device.views()
    # WHEN an operation needs 8,192 for itself and 4,096 for its result in L1 THEN it fits
    call = Call("relu", (source.placement.spec,), {}, L1)
    result = run_call(device, call, [source], cache)
    assert (result.static_bytes_per_core, result.peak_l1_bytes_per_bank) == (8192, 1393312 - 12_000 + 2048)
    # WHEN it runs again with the first result alive THEN it clashes, and the second result is gone
    with pytest.raises(BufferClashError) as error:
        run_call(device, call, [source], cache)
    assert error.value.lowest_address == 105824 + 12_000 - 2 * 2048
    assert result.buffer is not None
    device.free(result.buffer)
    assert device.views() == before


def test_out_of_memory_inside_an_operation_gives_everything_back():
    # GIVEN room for the permuted bfloat16 temporary (10,240) and its program (4,608), but not for the result (5,440)
    device = Device(N150)
    device.allocate(TensorSpec((64, 1393312 - 15_232), UINT8, ROW_MAJOR, L1))
    source = device.allocate(tensor(1, 4, 320, 5, dtype=BFLOAT8_B))
    before = device.views()
    call = Call("permute", (source.placement.spec,), {"dims": (0, 2, 1, 3)}, L1)
    # WHEN it runs THEN the last allocation fails, and both temporaries are gone
    with pytest.raises(OutOfMemoryError, match="each bank needs to store 5440 B"):
        run_call(device, call, [source], ProgramCache())
    assert device.views() == before


@pytest.mark.parametrize(
    ("name", "inputs", "arguments", "message"),
    [
        ("add", (SQUARE, tensor(1, 1, 3, 64)), {}, "Invalid subtile broadcast"),
        ("reshape", (SQUARE,), {"shape": [5, -1]}, "Invalid arguments to reshape"),
        ("permute", (SQUARE,), {"dims": [0, 0, 1, 2]}, "does not fit a tensor of rank 4"),
        ("slice", (SQUARE,), {"begins": [0], "ends": [1]}, "need 4 numbers each"),
    ],
)
def test_calls_that_make_no_sense_are_bad_input(name, inputs, arguments, message):
    with pytest.raises(BadInputError, match=message):
        plan(name, *inputs, **arguments)


@pytest.mark.parametrize(
    ("name", "inputs", "arguments", "message"),
    [
        ("relu", (), {}, "relu needs a tensor"),
        ("transpose", (SQUARE,), {"dim1": 1}, "transpose needs the argument 'dim2'"),
        ("slice", (SQUARE,), {"begins": [0, 0, 0, 0], "ends": [1, 1, 65, 64]}, "slice 0:65:1 of a dimension of 64"),
        ("concat", (SQUARE, tensor(1, 1, 32, 64)), {"dim": 3}, "All dimensions must be the same size except"),
    ],
)
def test_incomplete_calls_are_bad_input(name, inputs, arguments, message):
    with pytest.raises(BadInputError, match=message):
        plan(name, *inputs, **arguments)


def test_what_was_not_compared_is_not_called_exact():
    assert plan("permute", tensor(64), dims=[0]).note == "tensors of rank 0 and 1 are not verified"
    assert plan("transpose", TensorSpec((64, 64), UINT8), dim1=0, dim2=1).confidence == "bounded"
    without_elements = plan("relu", tensor(0, 64))
    assert without_elements.note == "tensors without elements are not verified: some crash the library"
    assert without_elements.confidence == "bounded"


def test_what_the_library_refuses_is_the_last_step_of_a_plan():
    refused = plan("matmul", SQUARE, tensor(1, 1, 32, 64))
    assert "must be equal to the height of the second tensor" in refused.steps[-1].message
    assert (refused.confidence, refused.results) == ("exact", ())


def test_a_rule_is_exact_only_for_releases_that_it_was_compared_with():
    call = Call("relu", (SQUARE,))
    assert plan_call(call, open_board("n150", release="0.81.1")).confidence == "exact"
    assert plan_call(call, open_board("n150", release="0.80.0")).confidence == "exact"
    older = plan_call(call, open_board("n150", release="0.75.0"))
    assert older.confidence == "bounded"
    assert older.note == "the rule of ttnn.relu is that of ttnn 0.81.1: it is not verified for ttnn 0.75.0"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"in0_block_w": 3}, "must be divisible by in0_block_w"),
        ({"per_core_M": 1, "compute_with_storage_grid_size": (8, 1)}, "Num output blocks along y (2)"),
        ({"compute_with_storage_grid_size": (9, 9)}, "must fit within device grid (8, 8)"),
        ({"out_subblock_h": 2, "out_subblock_w": 2, "out_block_h": 1}, "must be divisible by out_subblock_h"),
    ],
)
def test_a_program_config_that_the_library_refuses_is_refused(changes, why):
    sizes = {"in0_block_w": 1, "out_subblock_h": 1, "out_subblock_w": 1, "per_core_M": 2, "per_core_N": 2}
    config = {"new": "ttnn.MatmulMultiCoreReuseMultiCastProgramConfig", "compute_with_storage_grid_size": (8, 7)}
    accepted = plan("matmul", SQUARE, SQUARE, program_config={**config, **sizes})
    assert (accepted.confidence, static(accepted)) == ("exact", [(8192, 8192, 8192)])
    call = Call("matmul", (SQUARE, SQUARE), {"program_config": {**config, **sizes, **changes}})
    device = Device(N150)
    inputs = [device.allocate(SQUARE), device.allocate(SQUARE)]
    with pytest.raises(RefusedError, match=re.escape(why)):
        run_call(device, call, inputs, ProgramCache())


def test_a_config_that_was_not_compared_is_not_called_exact():
    config = {"new": "ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig", "gather_in0": True}
    assert plan("matmul", SQUARE, SQUARE, program_config=config).confidence == "bounded"
