# SPDX-License-Identifier: Apache-2.0
"""The same on the real library: its messages on a mock board are explained with the numbers of its own memory views."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from oracle.real import find_ttnn
from oracle.sides import Side, real_side
from ttmem.failures.diagnosis.diagnose import explain
from ttmem.hardware import DATA_TYPES, MEMORIES, open_board
from ttmem.twin.placement import place
from ttmem.twin.tensor_spec import LAYOUTS, TensorSpec

pytestmark = pytest.mark.oracle

STATES_PER_BOARD = 40
DTYPES = ("bfloat16", "float32", "bfloat8_b", "bfloat4_b")


@pytest.fixture(scope="module", params=["n150", "p150"])
def device(request: pytest.FixtureRequest) -> Iterator[Side]:
    interpreter, reason = find_ttnn()
    if interpreter is None:
        pytest.skip(f"EXPLANATIONS WERE NOT COMPARED WITH THE REAL TTNN: {reason}")
    opened = real_side(request.param)
    yield opened
    opened.close()


def some_tensor(random: Random, memory: str, bank_bytes: int, banks: int) -> dict[str, Any]:
    share = random.uniform(0.01, random.choice([0.1, 0.4, 1.2]))
    if random.random() < 0.2:
        width = random.choice([96, 1000, 1024, 4096, 50304])
        rows = max(1, int(share * bank_bytes * banks) // (2 * width))
        return {"shape": [rows, width], "dtype": "bfloat16", "layout": "row_major", "memory": memory}
    dtype = random.choice(DTYPES)
    tiles = max(1, int(share * bank_bytes * banks) // DATA_TYPES.find(dtype).tile_bytes()) + random.randint(
        0, 2 * banks
    )
    return {"shape": [32 * tiles, 32], "dtype": dtype, "layout": "tile", "memory": memory}


def spec_of(step: dict[str, Any]) -> TensorSpec:
    return TensorSpec(
        tuple(step["shape"]),
        DATA_TYPES.find(step["dtype"]),
        LAYOUTS.find(step["layout"]),
        MEMORIES.find(step["memory"]),
    )


def refused(device: Side, random: Random, memory: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Allocate and free on the mock until it refuses: its message, its view, and the tensor."""
    opened = device.open()
    banks, _, bank_bytes = opened["pools"][memory]
    live: list[str] = []
    for number in range(400):
        steps: list[dict[str, Any]] = []
        if live and random.random() < 0.3:
            steps.append({"free": live.pop(random.randrange(len(live)))})
        tensor = some_tensor(random, memory, bank_bytes, banks)
        steps += [{"alloc": f"t{number}", **tensor}, {"view": memory}]
        *_, answer, view = device.run(steps)
        if not answer["ok"]:
            device.run([{"clear": True}])
            return answer["error"], view, tensor
        live.append(f"t{number}")
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("memory", ["DRAM", "L1"])
def test_messages_of_the_real_library_are_explained_with_its_numbers(device: Side, memory: str) -> None:
    random = Random(f"{device.board} {memory}")
    memory_map = open_board(device.board)
    seen: set[str] = set()
    for _ in range(STATES_PER_BOARD):
        # GIVEN a random state of the real allocator
        message, view, tensor = refused(device, random, memory)
        # WHEN its message is explained
        (diagnosis,) = explain(message)
        numbers = diagnosis.failure.numbers
        # THEN the numbers are those of its own view
        assert (numbers["allocated"], numbers["free"], numbers["largest_free"]) == (
            view["allocated"],
            view["free"],
            view["largest_free"],
        )
        need = place(spec_of(tensor), memory_map).bytes_per_bank
        assert numbers["bytes_per_bank"] == need
        assert numbers["bank_bytes"] == memory_map.pool(MEMORIES.find(memory)).bytes_per_bank
        # AND the class is what they imply
        expected = (
            "oom/too-big"
            if need > numbers["bank_bytes"]
            else "oom/capacity"
            if need > view["free"]
            else "oom/fragmented"
        )
        assert diagnosis.failure.failure_class == expected
        seen.add(expected)
        # AND the chip is told from the sizes
        assert diagnosis.board.architecture == memory_map.architecture.name
    assert len(seen) >= 2


def test_remedies_hold_on_the_real_allocator(device: Side) -> None:
    random = Random(device.board)
    opened = device.open()
    banks, _, bank_bytes = opened["pools"]["DRAM"]
    replayed = 0
    for _ in range(STATES_PER_BOARD):
        # GIVEN a state that refuses a tensor of bfloat16 tiles
        filler = random.uniform(0.3, 0.9)
        tiles = [int(share * bank_bytes * banks) // 2048 for share in (filler, random.uniform(0.2, 0.7))]
        steps = [
            {"alloc": name, "shape": [32 * max(1, count), 32], "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}
            for name, count in zip(("filler", "refused"), tiles, strict=True)
        ]
        answers = device.run([{"clear": True}, *steps])
        if answers[-1]["ok"]:
            continue
        named = f"shape=Shape({steps[1]['shape']}), dtype=DataType::BFLOAT16, layout=Layout::TILE"
        (diagnosis,) = explain(f"{answers[-1]['error']}\n{named}", board=device.board)
        remedies = {remedy.id: remedy for remedy in diagnosis.remedies}
        assert diagnosis.tensor is not None
        assert diagnosis.tensor.has_dtype
        # WHEN the tensor is stored as bfloat8_b instead THEN it fits exactly when that was said
        (answer,) = device.run([{**steps[1], "dtype": "bfloat8_b"}])
        assert answer["ok"] == remedies["bfloat8-request"].solves
        replayed += 1
    device.run([{"clear": True}])
    assert replayed >= 5


def test_programs_that_the_real_library_refuses_are_explained(device: Side) -> None:
    random = Random(device.board)
    opened = device.open()
    banks, base, bank_bytes = opened["pools"]["L1"]
    io = {"alloc": "io", "shape": [32, 32], "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}
    seen: set[str] = set()
    for _ in range(STATES_PER_BOARD):
        # GIVEN one interleaved tensor that leaves some L1, and a program of one buffer
        left = random.randrange(64, bank_bytes // 2, 64)
        filler = {
            "alloc": "f",
            "shape": [banks, bank_bytes - left],
            "dtype": "uint8",
            "layout": "row_major",
            "memory": "L1",
        }
        with_filler = [filler] if random.random() < 0.7 else []
        pages = random.randint(1, 1200)
        buffer = {"bytes": pages * 2048, "page_bytes": 2048, "index": 0, "ranges": [[0, 0, 7, 7]]}
        *_, answer = device.run([{"clear": True}, io, *with_filler, {"program": [buffer]}])
        end, l1_bytes = base + pages * 2048, open_board(device.board).architecture.l1_bytes_per_core
        if answer["ok"]:
            continue
        # WHEN / THEN its message is explained with exactly those addresses
        (diagnosis,) = explain(answer["error"], board=device.board)
        numbers = diagnosis.failure.numbers
        assert numbers["region_end"] == end
        if end > l1_bytes:
            assert (diagnosis.failure.failure_class, diagnosis.derived["excess_bytes"]) == (
                "buffers/overflow",
                end - l1_bytes,
            )
        else:
            assert (diagnosis.failure.failure_class, numbers["overlap_bytes"]) == ("buffers/clash", end - base - left)
        assert abs(diagnosis.derived["static_bytes"] - pages * 2048) <= 8256  # the base is known to within releases
        seen.add(diagnosis.failure.failure_class)
    device.run([{"clear": True}])
    assert seen == {"buffers/clash", "buffers/overflow"}
