# SPDX-License-Identifier: Apache-2.0
"""How many users of how long a context fit, and that the engine agrees at the limit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import ttmem
from support.command_line import call
from support.model_configurations import LLAMA_8B
from ttmem.prediction.language.stream import build_stream
from ttmem.prediction.largest import find_capacity
from ttmem.prediction.request import Request
from ttmem.prediction.run_stream import predict_stream


@pytest.fixture
def target(tmp_path: Path) -> str:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA_8B, "num_hidden_layers": 6}))
    return str(file)


@pytest.mark.parametrize("recipe", ["generic", "tt-transformers:accuracy"])
def test_the_limits_of_the_table_are_those_of_the_whole_model(target: str, recipe: str) -> None:
    request = Request(target, engine="twin", recipe=recipe, users=8, context=4096)
    capacity = find_capacity(request)
    contexts = [point.context for point in capacity.points]
    assert contexts == sorted(contexts, reverse=True)
    assert dict(zip((1, 2, 4, 8, 16, 32), contexts, strict=True))[8] == capacity.largest_context
    for field, limit, step in (("context", capacity.largest_context, 32), ("users", capacity.largest_users, 1)):
        for value, fits in ((limit, True), (limit + step, False)):
            changed = replace(request, **{field: value})
            assert predict_stream(build_stream(changed), changed).fits is fits


def test_the_verb_shows_the_table(target: str) -> None:
    shown = call(
        "fit", target, "--engine", "twin", "--recipe", "tt-transformers:performance", "--no-store", "--users", "4"
    )
    assert shown.code == 0
    assert "largest context for 4 users: " in shown.out
    assert "the model's maximum" in shown.out
    assert "2.5 % of DRAM is kept free" in shown.out


def test_a_context_beyond_the_models_positions_is_not_cut(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA_8B, "num_hidden_layers": 2, "max_position_embeddings": 2048}))
    capacity = find_capacity(Request(str(file), recipe="tt-transformers:performance", users=2, context=4096))
    assert capacity.largest_context > 4096
    assert all(point.is_limit for point in capacity.points)


def test_what_does_not_fit_is_told_in_full_and_the_parts_sum_to_it(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA_8B))
    needed = []
    for users in (1, 2, 8):
        answer = ttmem.fit(str(config), engine="twin", users=users, context=65536, advice=False).to_json()
        parts = ("weights_bytes", "kv_cache_bytes", "activations_peak_bytes", "constants_bytes", "reserve_bytes")
        peak = answer["peak"]["DRAM"]
        assert not answer["fits"]
        assert peak["peak_bytes_per_bank"] == sum(answer[part] for part in parts) // peak["banks"]
        needed.append(peak["peak_bytes_per_bank"])
    assert needed == sorted(needed)
