# SPDX-License-Identifier: Apache-2.0
"""Recipes are data: what a wrong file is told, what one changes, and that the tensors are those of the formulas."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.command_line import call
from support.model_configurations import LLAMA_8B, MIXTRAL
from ttmem.base.errors import BadInputError
from ttmem.engines.twin import TwinEngine
from ttmem.prediction.language.dimensions import read_dimensions
from ttmem.prediction.language.layout import RecipeLayout
from ttmem.prediction.language.recipe import list_recipes, load_recipe, open_recipe
from ttmem.prediction.language.stream import build_language_stream
from ttmem.prediction.request import Request
from ttmem.prediction.run_stream import predict_stream
from ttmem.prediction.stream import RESERVE
from ttmem.prediction.targets import build_stream

ACCURACY, PERFORMANCE = "tt-transformers:accuracy", "tt-transformers:performance"


def _request(**changes: Any) -> Request:
    return Request("config.json", **{"recipe": ACCURACY, "context": 32768, "l1_small_bytes": 0, **changes})


def _taken(request: Request, config: dict[str, Any]) -> dict[str, int]:
    """Bytes per bank by the name of the tensor without its layer."""
    layout = RecipeLayout(request, read_dimensions(config), open_recipe(request.recipe))
    taken: Counter[str] = Counter()
    with TwinEngine(board=request.board) as engine:
        before = 0
        for resident in layout.residents():
            assert engine.ask([resident.step], isolated=False).status == "pass"
            held = engine.device.view(_dram()).allocated_bytes_per_bank
            parts = [part for part in resident.name.split(" (")[0].split(".") if not part.isdigit()]
            taken[".".join(parts)] += held - before
            before = held
    return dict(taken)


def _dram() -> Any:
    from ttmem.hardware import DRAM

    return DRAM


def test_the_tensors_of_a_llama_are_those_of_the_formulas() -> None:
    # GIVEN the formulas of tt_transformers for one chip with twelve banks
    def sharded(rows: int, columns: int) -> int:
        return rows // 32 * math.ceil(math.ceil(columns / 32) / 12) * 1088

    def interleaved(tiles: int, tile: int) -> int:
        return math.ceil(tiles / 12) * tile

    # WHEN the twin takes every tensor of Llama-3.1-8B with one user of 32,768 tokens
    taken = _taken(_request(), LLAMA_8B)
    # THEN each kind takes what the formula says
    prefix = "model.layers."
    blocks = 32768 // 64
    assert taken[f"{prefix}self_attn.qkv_proj.weight"] == 32 * sharded(4096, 6144)
    assert taken[f"{prefix}self_attn.o_proj.weight"] == 32 * sharded(4096, 4096)
    assert taken[f"{prefix}mlp.gate_proj.weight"] == taken[f"{prefix}mlp.up_proj.weight"] == 32 * sharded(4096, 14336)
    assert taken[f"{prefix}mlp.down_proj.weight"] == 32 * sharded(14336, 4096)
    assert taken[f"{prefix}self_attn.k_cache"] == 32 * interleaved(blocks * 8 * 2 * 4, 1088)
    assert taken["model.embed_tokens.weight"] == math.ceil(128256 / 12) * 8192
    assert taken[f"{prefix}norms.weight"] + taken["model.norm.weight"] == (4 * 32 + 2) * math.ceil(128 / 12) * 64
    assert taken["rope.cos_sin"] + taken["rope.cos_sin.rows"] == (
        2 * interleaved(1024 * 4, 2048) + 2 * math.ceil(32768 / 12) * 256
    )
    assert sum(taken[name] for name in taken if name.startswith("sampling")) * 12 == pytest.approx(84e6, rel=0.01)
    assert taken["lm_head.weight"] == 3 * sharded(4096, 668 * 64)
    assert taken["kept free"] == pytest.approx(0.025 * 1073741824, rel=0.01)


def test_performance_keeps_its_last_layer_larger() -> None:
    layout = RecipeLayout(_request(recipe=PERFORMANCE), read_dimensions(LLAMA_8B), open_recipe(PERFORMANCE))
    types = [layout.data_type("gate", layout.layer_scope(number)) for number in (0, 30, 31)]
    assert types == ["bfloat4_b", "bfloat4_b", "bfloat8_b"]


def test_what_is_asked_for_comes_before_what_the_recipe_says() -> None:
    request = _request(weights={"mlp": "bfp4", "": "bf16"}, kv_cache="bfloat4_b")
    layout = RecipeLayout(request, read_dimensions(LLAMA_8B), open_recipe(ACCURACY))
    assert [layout.data_type(kind) for kind in ("gate", "down", "qkv", "head", "cache", "embedding")] == [
        "bfloat4_b",
        "bfloat4_b",
        "bfloat16",
        "bfloat16",
        "bfloat4_b",
        "bfloat16",
    ]


@pytest.mark.parametrize(("chips", "board"), [(1, "n150"), (2, "n300"), (8, "t3k"), (32, "galaxy"), (4, "p150x4")])
@pytest.mark.parametrize("config", [LLAMA_8B, MIXTRAL], ids=["llama", "mixtral"])
def test_more_chips_hold_less_each(chips: int, board: str, config: dict[str, Any]) -> None:
    one = build_language_stream(_request(board=board, chips=1), config)
    split = build_language_stream(_request(board=board), config)
    assert (one.facts["chips"], split.facts["chips"]) == (1, chips)

    def elements(stream: Any) -> int:
        return sum(math.prod(resident.step["shape"]) for resident in stream.residents if resident.role == "weight")

    assert elements(split) <= elements(one)
    assert elements(split) >= elements(one) / chips


def test_a_batch_is_users() -> None:
    assert build_language_stream(_request(batch=7), LLAMA_8B).facts["users"] == 7
    assert build_language_stream(_request(batch=7, users=2), LLAMA_8B).facts["users"] == 2


def test_a_board_with_too_many_chips_is_used_in_part() -> None:
    stream = build_language_stream(
        _request(board="t3k"), {**LLAMA_8B, "head_dim": 128, "num_attention_heads": 20, "num_key_value_heads": 10}
    )
    assert stream.facts["chips"] == 2
    assert "10 key-value heads cannot be divided among the board's 8 chips (--chips)" in stream.assumed


def test_chips_must_divide_the_heads() -> None:
    with pytest.raises(BadInputError, match="8 key-value heads cannot be divided among 3 chips") as refused:
        build_language_stream(_request(chips=3), LLAMA_8B)
    assert refused.value.hint == "--chips 1, 2, 4, 8"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"recipe": "tt-transformer"}, "unknown recipe"),
        ({"users": 0}, "--users is 0"),
        ({"context": -5}, "--context is -5"),
        ({"phase": "train"}, "unknown phase"),
        ({"weights": {"mpl": "bf16"}}, "unknown kind of weight 'mpl'"),
        ({"weights": {"mlp": "bf17"}}, "unknown data type 'bf17'"),
        ({"weights": {"embedding": "bfp8"}}, "row-major, which bfloat8_b cannot be"),
        ({"board": "n15o"}, "unknown board"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInputError, match=told):
        build_language_stream(_request(**changes), LLAMA_8B)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("name = 'x'\nforward = 'sideways'\n", 2, "forward: Invalid enum value 'sideways'"),
        (
            "[let]\na = 3\n[[tensor]]\nname = 'w'\ntype = 'bf16'\nshape = ['dimm']\n",
            6,
            "tensor[0].shape: unknown name 'dimm'",
        ),
        ("[types]\nattn = 'bfloat8_b'\nmlp = 'bfloat9_b'\n", 3, "types.mlp: unknown data type 'bfloat9_b'"),
        (
            "[[tensor]]\nname = 'a'\ntype = 'bf16'\nshape = [1]\n[[tensor]]\nname = 'b'\ncolour = 3\n",
            7,
            "tensor[1].colour",
        ),
        ("[[tensor]]\nname = 'a'\ntype = 'bf16'\n", 1, "needs either shape or bytes_per_bank"),
        ("[[tensor]]\nname = 'a'\nshape = [1]\n", 1, "needs a kind or a type"),
        ("[[chunk]]\nvalue = 'import os'\n", 2, "chunk[0].value: cannot be read as an expression"),
        ("[[chunk]]\nvalue = '__import__(1, 2)'\nwhen = 'dim.real'\n", 3, "when: not part of the language"),
        ("name = 'x'\nname = 'y'\n", 2, "is not TOML"),
        ("extends = 'nothing'\n", None, "extends 'nothing'"),
        *(
            (f"name = 'x'\n{key} = {number}\n", 2, f"{key}: Expected")
            for key, numbers in {
                "reserve_percent": ("-1", "-1e308", "nan", "inf", "-inf", "100.5", "1e6", "1e300", "true"),
                "error_percent": ("-0.1", "nan", "inf", "1e308"),
                "default_users": ("0", "-3", "1_000_000_000_000_000_000"),
                "default_context": ("0", "1.5", "9_000_000_000_000_000_000"),
            }.items()
            for number in numbers
        ),
        ("[[change]]\ntypes = {}\nlayers = [0, 10000000000]\n", 3, "change[0].layers[1]: Expected"),
        ("[[change]]\ntypes = {}\nlayers = [-1]\n", 3, "change[0].layers[0]: Expected"),
        ("[let]\na = -9_000_000_000_000_000_000\n", 2, "let.a: Expected"),
        ("[let]\nb = 1\na = 1.5\n", 3, "let.a: Expected"),
        ("[types]\nmlp = 'bf16'\nattn = 3\n", 3, "types.attn: Expected"),
        ("[[chunk]]\nvalue = -1\n", 2, "chunk[0].value: Expected"),
        ("[[trace]]\nvalue = -1\n", 2, "trace[0].value: Expected"),
        ("[[tensor]]\nname = 'a'\ntype = 'bf16'\nshape = [4, 0]\n", 4, "tensor[0].shape[1]: Expected"),
        ("[[tensor]]\nname = 'a'\ntype = 'bf16'\nshape = [4]\ncopies = -1\n", 5, "tensor[0].copies: Expected"),
        ("[[tensor]]\nname = 'a'\ntype = 'bf16'\nshape = [4]\nsplit = 0\n", 5, "tensor[0].split: Expected"),
        ("[[tensor]]\nname = 'a'\nbytes_per_bank = -5\n", 3, "tensor[0].bytes_per_bank: Expected"),
        ("[[stage]]\nname = 's'\n[[stage.holds]]\nname = 'a'\nshape = [-1]\n", 5, "holds[0].shape[0]: Expected"),
        ("extends = '../../../etc/passwd'\n", None, "extends"),
    ],
)
def test_a_wrong_file_is_told_its_line_and_key(tmp_path: Path, text: str, line: int | None, told: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(BadInputError) as refused:
        build_language_stream(_request(recipe=str(file)), LLAMA_8B)
    assert told in refused.value.message
    assert refused.value.where == (f"{file}:{line}" if line else str(file))


def test_a_file_of_ones_own_changes_what_it_names_and_keeps_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        "extends = 'tt-transformers:performance'\nreserve_percent = 0\n[let]\nblock = 32\n[types]\ncache = 'bfp4'\n"
        "[[tensor]]\nname = 'model.embed_tokens.weight'\nkind = 'embedding'\nplace = 'host'\n"
        "shape = ['vocabulary', 'dim']\nlayout = 'row_major'\n"
    )
    recipe, base = load_recipe(file), open_recipe(PERFORMANCE)
    assert (recipe.name, recipe.let["block"], recipe.let["tokens"]) == ("mine", 32, base.let["tokens"])
    assert len(recipe.tensor) == len(base.tensor)
    stream = build_language_stream(_request(recipe=str(file)), LLAMA_8B)
    steps = {resident.name: resident.step for resident in stream.residents}
    assert "model.embed_tokens.weight" not in steps
    assert steps["model.layers.0.self_attn.k_cache"]["dtype"] == "bfloat4_b"
    assert "kept free" not in steps


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[tensor]]\nname = 'a'\nbytes_per_bank = '0 - dim'\n", "a: '0 - dim' is -4096, less than 0"),
        ("[[tensor]]\nname = 'a'\ntype = 'bf16'\nshape = [4]\ncopies = '0 - dim'\n", "a: '0 - dim' is -4096"),
        ("[[tensor]]\nname = 'a'\ntype = 'bf16'\nshape = ['dim - dim']\n", "a: 'dim - dim' is 0, less than 1"),
        ("[[chunk]]\nvalue = '0 - dim'\n", "chunk: '0 - dim' is -4096"),
        ("[[trace]]\nvalue = '0 - dim'\n", "trace: '0 - dim' is -4096"),
    ],
)
def test_an_expression_that_comes_to_an_impossible_number_is_refused(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f"extends = 'generic'\n{text}")
    with pytest.raises(BadInputError) as refused:
        build_language_stream(_request(recipe=str(file)), LLAMA_8B)
    assert told in refused.value.message


@pytest.mark.parametrize("extends", ["generic", PERFORMANCE, "gemma4", ""])
@pytest.mark.parametrize("percent", [0.5, 30, 100])
def test_what_is_announced_as_kept_free_is_kept(tmp_path: Path, extends: str, percent: float) -> None:
    # GIVEN a recipe that extends another one or nothing, and keeps a share of DRAM and a trace region
    file = tmp_path / "mine.toml"
    only = "only = ''\n[[tensor]]\nname = 'w'\ntype = 'bf16'\nshape = ['dim', 'dim']\n"
    trace = "[[trace]]\nvalue = 12_000_000\n"
    file.write_text(f"extends = '{extends}'\nreserve_percent = {percent}\n{only}{trace}")
    # WHEN a model is laid out by it
    request = _request(recipe=str(file))
    kept = {one.name: one for one in build_language_stream(request, LLAMA_8B).residents if one.role == RESERVE}
    # THEN both are taken out of every bank
    bank = 1024 * 1024 * 1024
    bytes_per_bank = {name: math.prod(one.step["shape"]) * 4 / 12 for name, one in kept.items()}
    assert bytes_per_bank["kept free"] == pytest.approx(bank * percent / 100, rel=0.01)
    assert bytes_per_bank["trace region"] == pytest.approx(1_000_000, rel=0.01)


def test_a_model_that_the_reserve_leaves_no_room_for_does_not_fit(tmp_path: Path) -> None:
    config, file = tmp_path / "config.json", tmp_path / "mine.toml"
    config.write_text(json.dumps({**LLAMA_8B, "num_hidden_layers": 16}))
    request = Request(str(config), engine="twin", recipe=str(file))
    found = {}
    for percent in (0, 20, 50, 90, 100):
        file.write_text(f"extends = 'generic'\nreserve_percent = {percent}\n")
        found[percent] = predict_stream(build_stream(request), request).fits
    assert found == {0: True, 20: True, 50: False, 90: False, 100: False}


@pytest.mark.parametrize(
    "text", ["", "reserve_percent = 1.0\n", "extends = ''\n[types]\nnorm = 'bf16'\n", "about = 'x'"]
)
def test_a_recipe_of_a_few_keys_extends_generic(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    found = {one.name for one in build_language_stream(_request(recipe=str(file)), LLAMA_8B).residents}
    assert found - {"kept free"} == {
        one.name for one in build_language_stream(_request(recipe="generic"), LLAMA_8B).residents
    }


@pytest.mark.parametrize(
    "tensor",
    ["bytes_per_bank = 64\nrole = 'reserve'", "shape = [32]\ntype = 'bf16'\nwhen = 'dim == 0'", ""],
)
def test_a_recipe_without_weights_is_refused(tmp_path: Path, tensor: str) -> None:
    config, file = tmp_path / "config.json", tmp_path / "mine.toml"
    config.write_text(json.dumps(LLAMA_8B))
    file.write_text(f"[[tensor]]\nname = 'a'\n{tensor}\n" if tensor else "[[stage]]\nname = 's'\n")
    ran = call("fit", config, "--recipe", file, "--engine", "twin", "--no-store")
    assert (ran.code, ran.out) == (2, "")
    assert "defines no weight for this model" in ran.err


def test_layers_that_a_model_does_not_have_are_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("extends = 'generic'\n[[change]]\nlayers = [0, 79]\ntypes = { mlp = 'bfloat8_b' }\n")
    assumed = build_language_stream(_request(recipe=str(file)), LLAMA_8B).assumed
    assert "the recipe changes layer 79, which a model with 32 layers does not have: no effect" in assumed


def test_names_of_our_recipes() -> None:
    assert list_recipes() == ["gemma4", "generic", "gpt-oss", ACCURACY, PERFORMANCE]
