# SPDX-License-Identifier: Apache-2.0
"""A prediction and a port of one model share no place and few names; their steps are found all the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.build_profile import ProfileBuilder, tensor
from ttmem.analysis.alignment import is_other_program, match_operations
from ttmem.analysis.diff import diff
from ttmem.profile.model import Profile

Step = tuple[str, int]


def program(name: str, steps: list[Step], place: str) -> Profile:
    """Each step makes a tensor of so many rows and keeps it; ``place`` names where it is written."""
    build, allocated = ProfileBuilder(name), 0
    with build.program("main"):
        for number, (operator, rows) in enumerate(steps):
            made = tensor(rows, 32)
            build.operation(
                f"ttnn.{operator}", results={f"%{number}": made}, location=place.format(number), dram=allocated, l1=0
            )
            allocated += made.padded_bytes
        build.operation("ttnn.deallocate", dram=allocated, l1=0)
    return build.build()


PREDICTED: list[Step] = [("conv2d", 320), ("to_layout", 320), ("hardtanh", 320), ("linear", 64), ("add", 64)]
PORTED: list[Step] = [
    *[("from_torch", 64), ("to_device", 64)],
    *[("conv2d", 320), ("to_memory_config", 320), ("matmul", 64), ("add", 64), ("softmax", 32)],
]


def pairs(before: Profile, after: Profile) -> list[tuple[int, int]]:
    return match_operations(before, before.timelines[0], after, after.timelines[0])


def test_steps_are_found_by_operator_size_and_order() -> None:
    before, after = program("p", PREDICTED, "features.{}.conv"), program("m", PORTED, "model.py:{}")
    assert is_other_program(before, after)
    assert pairs(before, after) == [(0, 2), (3, 4), (4, 5)]


def test_of_two_with_one_name_the_size_decides() -> None:
    before = program("p", [("linear", 32), ("linear", 96), ("linear", 512)], "layer.{}.fc")
    after = program("m", [("linear", 96), ("linear", 512)], "block.py:{}")
    assert pairs(before, after) == [(1, 0), (2, 1)]
    assert pairs(before, program("m", [("linear", 4096)], "block.py:{}")) == []


def test_programs_that_share_a_place_are_aligned_by_it() -> None:
    before, after = program("a", PREDICTED, "layer.{}"), program("b", [("exp", 32), *PREDICTED], "layer.{}")
    assert not is_other_program(before, after)
    assert diff(before, after).memories["DRAM"].pairs == ()


def test_a_tensor_of_the_same_step_is_the_same_tensor_although_all_names_differ() -> None:
    before = program("p", [("conv2d", 320), ("linear", 64)], "features.{}.conv")
    after = program("m", [("from_torch", 32), ("conv2d", 320), ("matmul", 96)], "model.py:{}")
    found = diff(before, after)
    assert found.memories["DRAM"].pairs == ((0, 1), (1, 2))
    larger = [change for change in found.grew if change.reason == "larger"]
    assert [(change.tensor, change.counterpart) for change in larger] == [("%2", "%1")]


def attention(name: str, weights: dict[str, int], place: str) -> Profile:
    """A norm, a matmul per weight (with so many columns), a softmax and a sum; the weights were there before."""
    build, x = ProfileBuilder(name), tensor(128, 64)
    held = sum(weights.values()) * 64 * 2 // 12
    for weight, columns in weights.items():
        build.argument(weight, 64, columns, on_device=True)
    with build.program("main"):
        build.operation("ttnn.layer_norm", results={"%n": x}, location=place.format("norm"), dram=held, l1=0)
        for number, (weight, columns) in enumerate(weights.items()):
            build.operation(
                "ttnn.matmul",
                operands={"%n": x, f"%arg{number}": tensor(64, columns)},
                results={f"%{number}": tensor(128, columns)},
                location=place.format(weight),
                dram=held,
                l1=0,
            )
        for operator in ("softmax", "add"):
            build.operation(f"ttnn.{operator}", results={"%s": x}, location=place.format(operator), dram=held, l1=0)
    return build.build()


def test_a_weight_in_one_piece_is_its_parts_of_the_other_program() -> None:
    parts, fused = {"q": 256, "k": 64, "v": 64}, {"wqkv": 384}
    before, after = attention("p", parts, "layer.{}.x"), attention("m", fused, "model.py:{}")
    for first, second, told, other in ((before, after, "wqkv", "q + k + v"), (after, before, "q + k + v", "wqkv")):
        found = diff(first, second)
        changed = {change.tensor: change for change in (*found.grew, *found.shrank)}
        assert not {"wqkv", *parts, told} & set(changed) - {told}, changed
        assert changed[told].counterpart == other
        # bytes per bank are rounded up three times, or once: that is all that is left of the difference
        assert abs(changed[told].delta_bytes_per_bank) <= 3 * 2048
        assert changed[told].delta_bytes == 0


def test_programs_with_few_steps_in_common_are_not_one_model() -> None:
    steps: list[Step] = [("conv2d", 32), ("relu", 32), ("linear", 96), ("exp", 64), ("softmax", 64), ("add", 32)]
    before = program("p", steps, "a.{}.x")
    after = program("m", [(f"other_{number}", 32) for number in range(8)] + [("add", 32)], "b.py:{}")
    assert pairs(before, after) == []
    assert diff(before, after).memories["DRAM"].pairs == ()


@given(
    st.lists(st.tuples(st.sampled_from(["conv2d", "linear", "add"]), st.sampled_from([32, 64, 512])), max_size=12),
    st.lists(st.tuples(st.sampled_from(["conv2d", "matmul", "exp"]), st.sampled_from([32, 64, 512])), max_size=12),
)
def test_pairs_are_in_order_and_agree(first: list[Step], second: list[Step]) -> None:
    before, after = program("p", first, "a.{}.x"), program("m", second, "b.py:{}")
    found = pairs(before, after)
    assert found == sorted(found)
    assert len({old for old, _ in found}) == len({new for _, new in found}) == len(found)
    for old, new in found:
        assert first[old][1] == second[new][1]
    # a program is its own counterpart, step by step
    assert pairs(before, before) == [(at, at) for at in range(len(first))]
