# SPDX-License-Identifier: Apache-2.0
"""``ttmem fit`` of language models on the command line: answers, and what is wrong is told in a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import call
from support.model_configurations import LLAMA_8B


@pytest.fixture
def target(tmp_path: Path) -> str:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA_8B))
    return str(file)


def test_a_model_that_is_too_large_ends_with_1_and_its_parts(target: str) -> None:
    options = ("--engine", "twin", "--recipe", "tt-transformers:accuracy", "--no-store", "--json")
    shown = call("fit", target, *options, "--context", "65536")
    answer = json.loads(shown.out)
    assert (shown.code, answer["fits"], answer["first_failure"]["memory"]) == (1, False, "DRAM")
    assert answer["peak"]["DRAM"]["peak_percent"] > 99
    assert answer["capacity"]["largest_context"] < 65536
    assert answer["error_bound_percent"] == 0.9


def test_the_parts_sum_to_the_peak(target: str) -> None:
    options = ("--engine", "twin", "--recipe", "tt-transformers:performance", "--no-store", "--json")
    answer = json.loads(call("fit", target, *options, "--context", "32768").out)
    parts = ("weights_bytes", "kv_cache_bytes", "activations_peak_bytes", "constants_bytes", "reserve_bytes")
    peak = answer["peak"]["DRAM"]
    assert sum(answer[part] for part in parts) == peak["peak_bytes_per_bank"] * peak["banks"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--recipe", "nobody's"), "unknown recipe"),
        (("--weights", "mpl=bfloat8_b"), "unknown kind of weight 'mpl'"),
        (("--max", "size"), "a language model has no image size"),
        (("--chips", "3"), "8 key-value heads cannot be divided among 3 chips"),
        (("--set", "hidden_size=big"), "hidden_size is 'big', not a size"),
    ],
)
def test_a_wrong_option_is_told_in_a_line(target: str, options: tuple[str, ...], told: str) -> None:
    shown = call("fit", target, "--engine", "twin", "--no-store", *options)
    assert (shown.code, shown.out) == (2, "")
    assert told in shown.err
    assert "Traceback" not in shown.err


def test_a_wrong_recipe_is_told_its_line(target: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("extends = 'generic'\n\n[types]\nmlp = 'float7'\n")
    shown = call("fit", target, "--engine", "twin", "--no-store", "--recipe", str(file))
    assert shown.code == 2
    assert f"{file}:4: types.mlp: unknown data type 'float7'" in shown.err
