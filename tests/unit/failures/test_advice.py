# SPDX-License-Identifier: Apache-2.0
"""The advice fits the operation, is possible, and promises no more than is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import ROOT
from ttmem.analysis.failure import diagnose_failure, failures
from ttmem.engines.run_script import RunSettings, run_script
from ttmem.failures.diagnosis.diagnose import Diagnosis, Remedy, diagnose, explain
from ttmem.failures.text.context import find_family
from ttmem.failures.text.find import find_failures
from ttmem.profile.model import Profile

OVERFLOW = (
    "Statically allocated circular buffers on core range [(x=0,y=0) - (x=7,y=7)] grow to 2219904 B which is beyond max "
    "L1 size of 1499136 B\nbacktrace:\n --- {frame}(ttnn::Tensor const&)\n"
)
CLASH = (
    "Statically allocated circular buffers in program 4 clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer "
    "allocated at {lowest} and static circular buffer region ends at {end}\nbacktrace:\n --- {frame}(int)\n"
)
DRAM = (
    "Out of Memory: Not enough space to allocate 204800000 B DRAM buffer across 12 banks, where each bank needs to "
    "store 17088000 B, but bank size is 1073741792 B (allocated: 1063741792 B, free: 10000000 B, largest free block: "
    "9000000 B)"
)
TRACE = "Creating trace buffers of size 53616640B on MeshDevice 0, but only 50000000B is allocated for trace region."
FAMILIES = {
    "ttnn::transformer::paged_scaled_dot_product_attention_decode": ("attention-chunks",),
    "ttnn::conv_transpose2d": ("conv-transpose-slices",),
    "ttnn::conv2d": ("auto-sharding", "conv-blocks"),
    "ttnn::max_pool2d": ("pool-slices",),
    "ttnn::linear": ("matmul-config",),
    "ttnn::mean": ("reduce-in-steps",),
    "ttnn::rms_norm": ("wider-norm",),
    "ttnn::softmax": ("wider-norm",),
    "ttnn::slice": ("whole-tiles-first",),
    "ttnn::experimental::conv3d": ("conv3d-block",),
}


def explained(text: str) -> Diagnosis:
    (diagnosis,) = explain(text)
    return diagnosis


def explain_run(script: Path) -> list[Diagnosis]:
    """The failures of a script on a mock N150."""
    profile: Profile = run_script(str(script), settings=RunSettings(board="n150"), output=2).profile
    return [diagnose_failure(profile, failure) for failure in failures(profile)]


def by_id(diagnosis: Diagnosis) -> dict[str, Remedy]:
    return {remedy.id: remedy for remedy in diagnosis.remedies}


L1 = (
    "Out of Memory: Not enough space to allocate 55386112 B L1 buffer across 64 banks, where each bank needs to store "
    "865408 B, but bank size is 1330048 B (allocated: 737280 B, free: 592768 B, largest free block: 592768 B)"
)


@pytest.mark.parametrize(
    ("call", "solves"),
    [
        ("ttnn.gelu", True),
        ("ttnn.linear", True),
        ("ttnn.softmax", True),
        ("ttnn.from_torch", True),
        ("ttnn.max_pool2d", None),
        ("ttnn.conv2d", None),
        ("ttnn.transformer.scaled_dot_product_attention", None),
    ],
)
def test_dram_is_enough_only_for_a_result_that_can_be_there(call: str, solves: bool | None) -> None:
    site = 'Traceback (most recent call last):\n  File "m.py", line 3, in f\n'
    diagnosis = explained(f"{site}    y = {call}(x)\nRuntimeError: {L1}")
    assert diagnosis.context.operation == call
    assert by_id(diagnosis)["request-to-dram"].solves is solves
    if diagnosis.context.family in ("pool", "conv"):
        assert diagnosis.remedies[0].id == "slice-pool-and-conv"


def test_dram_is_not_enough_for_a_buffer_of_an_unknown_call() -> None:
    assert by_id(explained(L1))["request-to-dram"].solves is None


def test_an_upload_gets_no_advice_for_other_calls() -> None:
    site = 'Traceback (most recent call last):\n  File "m.py", line 3, in f\n'
    diagnosis = explained(f"{site}    w = ttnn.from_torch(t, device=device)\nRuntimeError: {L1}")
    assert diagnosis.context.operation == "ttnn.from_torch"
    assert "slice-pool-and-conv" not in by_id(diagnosis)


@pytest.mark.parametrize("call", ["open_device", "synchronize_device"])
def test_a_call_without_a_result_is_not_told_to_place_it(call: str) -> None:
    site = 'Traceback (most recent call last):\n  File "m.py", line 3, in f\n'
    assert "request-to-dram" not in by_id(explained(f"{site}    ttnn.{call}(device)\nRuntimeError: {L1}"))


FLOATS = (
    "Out of Memory: Not enough space to allocate 67108864 B DRAM buffer across 12 banks, where each bank needs to "
    "store 5595136 B, but bank size is 1071821792 B (allocated: 1067000000 B, free: 4821792 B, largest free block: "
    "4821792 B)"
)


@pytest.mark.parametrize(
    ("around", "solves"),
    [
        ("", None),
        ("x is (4096, 4096)", None),
        ("shape=Shape([4096, 4096]), dtype=DataType::FLOAT32, layout=Layout::TILE", True),
        ("f32[4096,4096]{1,0}", True),
    ],
)
def test_another_data_type_is_enough_only_where_the_text_names_the_one_of_now(around: str, solves: bool | None) -> None:
    assert by_id(explained(f"{FLOATS}\n{around}"))["not-float32"].solves is solves


@pytest.mark.parametrize(("frame", "first"), FAMILIES.items(), ids=FAMILIES)
def test_the_advice_for_the_operation_comes_first_and_that_for_others_does_not_come(
    frame: str, first: tuple[str, ...]
) -> None:
    diagnosis = explained(OVERFLOW.format(frame=frame))
    assert diagnosis.remedies[0].id in first
    of_others = {name for names in FAMILIES.values() for name in names} - set(first)
    of_others -= {"conv-blocks"} if "conv2d" in frame else set()
    assert of_others.isdisjoint(by_id(diagnosis))
    general = [remedy.is_general for remedy in diagnosis.remedies]
    assert general == sorted(general)


def test_what_a_thread_shows_for_an_operation_is_not_dropped_because_it_is_named() -> None:
    text = (
        "TT_THROW: Statically allocated circular buffers on core range [0-0 - 10-9] grow to 2318272 B which is beyond "
        "max L1 size of 1572864 B\n  ttnn::prim::SdpaDecodeDeviceOperation\n"
        "  ttnn::transformer::paged_scaled_dot_product_attention_decode\n"
        "RuntimeError: Bad StatusOr access: INTERNAL: Error code: 13"
    )
    remedies = by_id(explained(text))
    assert {"attention-chunks", "lower-optimisation"} <= remedies.keys()
    assert "friendlier-size" not in remedies


@pytest.mark.parametrize("frame", ["ttnn::linear", "ttnn::conv2d", "ttnn::group_norm", "ttnn::softmax", "other"])
def test_where_tensors_reach_down_to_the_base_no_block_can_shrink_enough(frame: str) -> None:
    # GIVEN a tensor some hundred bytes above the base, and buffers of some thousand
    diagnosis = explained(CLASH.format(lowest=104448, end=107936, frame=frame))
    # THEN nothing is advised that shrinks the buffers
    shrinking = {"smaller-blocks", "matmul-config", "conv-blocks", "norm-blocks", "attention-chunks"}
    assert shrinking.isdisjoint(by_id(diagnosis))
    assert "tensor-to-dram" in by_id(diagnosis)
    # AND what is drawn agrees with what was seen
    assert diagnosis.picture is not None
    overlap = next(stretch for stretch in diagnosis.picture.stretches if stretch.kind == "overlap")
    assert (overlap.start, overlap.bytes) == (104448, 3488)
    assert diagnosis.derived["static_bytes"] > 3488


@pytest.mark.parametrize("board", ["n150", "p150"])
@pytest.mark.parametrize("lowest", [99_200, 104_448, 105_000, 107_000, 112_000, 400_000])
def test_no_base_is_drawn_above_a_tensor(board: str, lowest: int) -> None:
    (failure,) = find_failures(CLASH.format(lowest=lowest, end=lowest + 64, frame="other"))
    picture = diagnose(failure, board=board).picture
    assert picture is not None
    reserved = [stretch for stretch in picture.stretches if stretch.kind == "reserved"]
    assert all(stretch.end <= lowest for stretch in reserved)
    assert [stretch.bytes for stretch in picture.stretches if stretch.kind == "overlap"] == [64]


def test_192_bytes_are_found_in_l1_small() -> None:
    text = (
        "Statically allocated circular buffers in program 2282 clash with L1 buffers on core range [0-0 - 10-9]. L1 "
        "buffer allocated at 1563072 and static circular buffer region ends at 1563264"
    )
    first = explained(text).remedies[0]
    assert first.id == "smaller-l1-small-lifts-tensors"
    assert "l1_small_size" in first.do
    assert "192 B" in first.do


@pytest.mark.parametrize(("overlap", "written"), [(192, "less than 0.1%"), (500_000, "34.")])
def test_small_shares_are_not_zero(overlap: int, written: str) -> None:
    text = CLASH.format(lowest=1563072 - overlap, end=1563072, frame="other").replace("7-7", "10-9")
    notes = {figure.label: figure.note for figure in explained(text).arithmetic}
    assert written in notes["overlap"]


def test_a_trace_region_is_never_said_to_be_enough() -> None:
    diagnosis = explained(TRACE)
    assert all(remedy.solves is not True for remedy in diagnosis.remedies)
    first = diagnosis.remedies[0]
    assert "so far" in first.do
    assert "add to it" in first.why


def test_a_training_step_gets_no_advice_for_inference_and_no_promise() -> None:
    test_id = "tests/runner/test_models.py::test_all_models[gpt2-single_device-training]"
    diagnosis = explained(f"FAILED {test_id} - RuntimeError: {DRAM}")
    assert diagnosis.remedies[0].id == "smaller-training-step"
    assert {"smaller-kv-cache", "fewer-logits", "split-request"}.isdisjoint(by_id(diagnosis))
    assert all(remedy.solves is not True for remedy in diagnosis.remedies)
    # The same message of an inference test keeps its own.
    assert "smaller-kv-cache" in by_id(explained(f"RuntimeError: {DRAM}"))


@pytest.mark.parametrize("text", ["ETH training timed out after 900000 ms", "DRAM training for channel 3 timed out"])
def test_training_of_links_is_no_training_step(text: str) -> None:
    assert "phase" not in explained(text).context.hints


def test_a_free_amount_without_its_pieces_is_not_called_a_block() -> None:
    text = DRAM.partition(", largest free block")[0] + ")"
    picture = explained(text).picture
    assert picture is not None
    free = [stretch.label for stretch in picture.stretches if stretch.kind == "free"]
    assert free == ["free; the message does not say in what pieces"]


@pytest.mark.parametrize(
    ("shape", "padded"),
    [
        ("(1,256,3,25281)", "1x256x32x25312"),
        ("[1, 256, 3, 25281]", "1x256x32x25312"),
        ("1x256x3x25281", "1x256x32x25312"),
        ("torch.Size([1, 256, 3, 25281])", "1x256x32x25312"),
        ("1 x 256 x 3 x 25281", "1x256x32x25312"),
        ("Shape([1, 256, 3[32], 25281[25312]])", "1x256x32x25312"),
        ("ttnn.Tensor(shape=ttnn.Shape([1, 256, 3[32], 25281[25312]]))", "1x256x32x25312"),
        ("bf16[1,256,3,25281]{3,2,1,0}", "1x256x32x25312"),
    ],
)
def test_a_shape_in_the_text_is_tried_with_its_padding(shape: str, padded: str) -> None:
    text = (
        f"ttnn.add of two tensors of {shape} fails\nOut of Memory: Not enough space to allocate 414711808 B DRAM "
        "buffer across 12 banks, where each bank needs to store 34560000 B"
    )
    diagnosis = explained(text)
    assert diagnosis.tensor is not None
    assert (diagnosis.tensor.confidence, diagnosis.tensor.shape) == ("certain", (1, 256, 3, 25281))
    assert padded in diagnosis.tensor.text
    assert diagnosis.remedies[0].id == "undo-padding"
    assert diagnosis.context.operation == "ttnn.add"


def test_a_shape_that_needs_other_bytes_is_not_the_tensor() -> None:
    text = (
        "tensors of (1,256,3,25282)\nOut of Memory: Not enough space to allocate 414711808 B DRAM buffer across 12 "
        "banks, where each bank needs to store 34558000 B"
    )
    tensor = explained(text).tensor
    assert tensor is None or tensor.confidence != "certain"


def test_a_vocabulary_is_a_possibility_and_promises_nothing() -> None:
    text = (
        "Out of Memory: Not enough space to allocate 3294625792 B DRAM buffer across 12 banks, where each bank needs "
        "to store 274686208 B, but bank size is 1071821792 B (allocated: 784847680 B, free: 286974112 B, largest free "
        "block: 216504544 B)"
    )
    diagnosis = explained(text)
    assert diagnosis.tensor is not None
    assert "201,088 is the vocabulary size of gpt-oss, so possibly" in diagnosis.tensor.text
    assert by_id(diagnosis)["fewer-logits"].solves is None


@pytest.mark.usefixtures("with_ttnn")
def test_a_loop_that_keeps_its_results_is_told_to_free_them_first() -> None:
    # GIVEN the tutorial's script on the real library: gelu in a loop, and nobody frees
    (diagnosis,) = explain_run(ROOT / "examples" / "out_of_memory.py")
    # THEN the first advice is to free what earlier turns made, and nothing else is called enough
    first, *others = diagnosis.remedies
    assert first.id == "free-repeats"
    assert "after its last use" in first.do
    assert "out_of_memory.py:23" in first.do
    assert first.saves_bytes_per_bank == 4 * 262144
    assert all(remedy.solves is not True for remedy in others)
    assert {"slice-pool-and-conv", "split-batch"}.isdisjoint(by_id(diagnosis))


SOFTMAX = """\
import ttnn

device = ttnn.open_device(device_id=0)


def allocate(*shape):
    return ttnn.allocate_tensor_on_device(
        ttnn.Shape(list(shape)), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG
    )


a = allocate(1, 1, 4096, 4096)
b = allocate(1, 1, 2048, 4096)
c = ttnn.softmax(b, dim=-1{memory})
ttnn.close_device(device)
"""


@pytest.mark.usefixtures("with_ttnn")
def test_a_result_cannot_be_moved_before_its_operation(tmp_path: Path) -> None:
    # GIVEN a softmax whose own result is the lowest tensor of the clash
    script = tmp_path / "clash.py"
    script.write_text(SOFTMAX.format(memory=""))
    (diagnosis,) = explain_run(script)
    assert diagnosis.failure.failure_class == "buffers/clash"
    # THEN no advice moves it; its place, and what lies above it, can change
    assert not any("Move 'temporary" in remedy.do or "Move 'c'" in remedy.do for remedy in diagnosis.remedies)
    own = by_id(diagnosis)["own-output-to-dram"]
    assert own.solves is True
    assert "ttnn.softmax" in own.do
    # AND the library agrees
    script.write_text(SOFTMAX.format(memory=", memory_config=ttnn.DRAM_MEMORY_CONFIG"))
    assert explain_run(script) == []
    assert by_id(diagnosis)["tensor-to-dram"].solves is True
    moved = "b = ttnn.to_memory_config(b0 := b, ttnn.DRAM_MEMORY_CONFIG); ttnn.deallocate(b0)\nc = "
    script.write_text(SOFTMAX.format(memory="").replace("c = ", moved))
    assert "Move 'b'" in by_id(diagnosis)["tensor-to-dram"].do
    assert explain_run(script) == []


def test_every_family_of_the_advice_is_one_of_the_operations() -> None:
    for frame in FAMILIES:
        assert find_family(frame.replace("::", "."))
