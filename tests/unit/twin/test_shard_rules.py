# SPDX-License-Identifier: Apache-2.0
"""Shards at the edge of what the library takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttmem import TtmemError
from ttmem.engines.engine import EngineSettings, open_engine
from ttmem.twin.replay import read_shard


@pytest.mark.parametrize("shape", [[32], [32, 64, 64]])
def test_a_shard_has_two_sizes(shape: list[int]) -> None:
    with pytest.raises(TtmemError, match="a height shard has two sizes"):
        read_shard({"kind": "height", "shape": shape, "grid": [8, 1]})


@pytest.mark.parametrize("shape", [(32, 48), (48, 32), (48, 48)])
def test_both_sizes_of_a_shard_of_tiles_are_whole_tiles(shape: tuple[int, int]) -> None:
    shard = {"kind": "block", "shape": list(shape), "grid": [2, 2], "orientation": "row"}
    step = {
        "alloc": "a",
        "shape": [1, 1, 96, 96],
        "dtype": "bfloat16",
        "layout": "tile",
        "memory": "L1",
        "shard": shard,
    }
    with open_engine("twin", EngineSettings(board="n150")) as engine:
        outcome = engine.ask([step])
    assert outcome.status == "invalid"
    assert f"Physical shard shape {shape} must be tile" in outcome.message


@pytest.mark.parametrize(("users", "status"), [(24, "pass"), (32, "pass"), (40, "invalid")])
def test_heads_of_at_most_32_users_are_joined(users: int, status: str, tmp_path: Path) -> None:
    grid = {"kind": "height", "shape": [32, 64], "grid": [8, -(-users // 8)], "orientation": "row"}
    shape = [1, users, 32, 64]
    allocation = {"alloc": "a", "shape": shape, "dtype": "bfloat16", "layout": "tile", "memory": "L1", "shard": grid}
    call = {
        "call": "ttnn.experimental.nlp_concat_heads_decode",
        "args": [{"tensor": "a"}],
        "kwargs": {"num_heads": 8},
        "out": "b",
    }
    with open_engine("twin", EngineSettings(board="n150")) as engine:
        outcome = engine.ask([allocation, call])
    assert outcome.status == status, outcome.message
