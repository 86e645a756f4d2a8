# SPDX-License-Identifier: Apache-2.0
"""The real library and the twin take the same bytes for every recipe, whatever the sizes of the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.model_configurations import GEMMA_4, LLAMA_8B, MIXTRAL, QWEN3_32B
from ttmem.engines.engine import Engine, EngineSettings, open_engine
from ttmem.engines.interpreters import Interpreter
from ttmem.prediction.language.stream import build_language_stream
from ttmem.prediction.request import L1_SMALL_BYTES, Request
from ttmem.prediction.stream import Stream

BOARDS = ("n150", "t3k", "p150")
LLAMA_LIKE = ("llama", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi3", "olmo2")
OTHERS = ("gpt_neox", "starcoder2", "stablelm", "cohere", "olmo", "phi", "opt", "bloom")
FAMILIES = [*LLAMA_LIKE, *LLAMA_LIKE, *OTHERS]


@pytest.fixture(scope="module")
def engines(ttnn_interpreter: Interpreter) -> Iterator[dict[str, tuple[Engine, Engine]]]:
    """Twin and mock of each board."""
    opened: dict[str, tuple[Engine, Engine]] = {}
    for board in BOARDS:
        known = EngineSettings(board=board, l1_small_bytes=L1_SMALL_BYTES, python=ttnn_interpreter.path)
        opened[board] = open_engine("twin", known), open_engine("mock", known)
    yield opened
    for _, mock in opened.values():
        mock.close()


def _played(engine: Engine, stream: Stream) -> tuple[Any, ...]:
    steps = [resident.step for resident in stream.residents]
    resident = engine.ask(steps, stop=True).peak_bytes_per_bank["DRAM"]
    for call in stream.calls:
        steps += [*call.steps, *({"free": name, "force": False} for name in call.frees)]
    outcome = engine.ask(steps, stop=True)
    return outcome.status, outcome.failure_class, resident, outcome.peak_bytes_per_bank["DRAM"]


@st.composite
def _models(draw: st.DrawFn) -> dict[str, Any]:
    key_heads = draw(st.sampled_from([8, 16]))
    experts = draw(st.sampled_from([0, 0, 0, 8]))
    family = draw(st.sampled_from(["mixtral", "qwen2_moe", "gpt_oss"] if experts else FAMILIES))
    return {
        "model_type": family,
        "hidden_size": 256 * draw(st.integers(1, 24)),
        "head_dim": draw(st.sampled_from([64, 128, 256, 80, 96] if family in OTHERS else [64, 128, 256])),
        "num_attention_heads": key_heads * draw(st.sampled_from([1, 2, 4])),
        "num_key_value_heads": key_heads,
        "intermediate_size": 256 * draw(st.integers(1, 60)),
        "num_hidden_layers": draw(st.integers(1, 2)),
        "vocab_size": draw(st.integers(1000, 150_000)),
        "num_local_experts": experts,
        "num_experts_per_tok": 2,
        "max_position_embeddings": 8192,
    }


@pytest.mark.oracle
@examples(20)
@given(
    config=_models(),
    board=st.sampled_from(BOARDS),
    recipe=st.sampled_from(["generic", "tt-transformers:performance", "tt-transformers:accuracy"]),
    users=st.sampled_from([1, 3, 32]),
    context=st.sampled_from([100, 2048, 8192]),
    phase=st.sampled_from(["prefill", "decode"]),
)
def test_every_recipe_takes_the_same_bytes_on_both(
    engines: dict[str, tuple[Engine, Engine]],
    config: dict[str, Any],
    board: str,
    recipe: str,
    users: int,
    context: int,
    phase: str,
) -> None:
    recipe = "generic" if config["model_type"] in OTHERS else recipe
    request = Request("config.json", board=board, recipe=recipe, users=users, context=context, phase=phase)
    stream = build_language_stream(request, config)
    twin, mock = (_played(engine, stream) for engine in engines[board])
    # An estimated call (rows wider than 5,000 that become tiles) is not judged, but its peak is the same.
    assert (twin if twin[0] != "unsupported" else ("pass", *twin[1:])) == mock


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("config", "changes"),
    [
        (LLAMA_8B, {"attention": "eager"}),
        (LLAMA_8B, {"kv_cache": "bfloat8_b", "weights": {"": "bfloat8_b"}}),
        (LLAMA_8B, {"context": 8192, "prefill_chunk": 2048}),
        (QWEN3_32B, {"board": "t3k"}),
        (MIXTRAL, {"board": "t3k", "phase": "decode", "users": 8}),
        (GEMMA_4, {"board": "t3k"}),
        (GEMMA_4, {"board": "t3k", "phase": "decode", "users": 2}),
    ],
)
def test_a_decoder_is_played_to_its_logits(
    engines: dict[str, tuple[Engine, Engine]], config: dict[str, Any], changes: dict[str, Any]
) -> None:
    request = Request("config.json", **{"context": 2048, **changes})
    stream = build_language_stream(request, {**config, "num_hidden_layers": 1})
    twin, mock = (_played(engine, stream) for engine in engines[request.board])
    # An estimated call (rows wider than 5,000 that become tiles) is not judged, but its peak is the same.
    assert (twin if twin[0] != "unsupported" else ("pass", *twin[1:])) == mock
    assert mock[0] == "pass"


@pytest.mark.oracle
def test_an_embedding_on_the_host_is_looked_up_there(engines: dict[str, tuple[Engine, Engine]], tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        "extends = 'generic'\n[[tensor]]\nname = 'model.embed_tokens.weight'\nkind = 'embedding'\nplace = 'host'\n"
        "layout = 'row_major'\nshape = ['vocabulary', 'dim // chips']\n"
    )
    config = {**LLAMA_8B, "num_hidden_layers": 1}
    streams = [
        build_language_stream(Request("config.json", recipe=recipe), config) for recipe in ("generic", str(file))
    ]
    device, host = (_played(engines["n150"][1], stream) for stream in streams)
    assert (device[0], host[0]) == ("pass", "pass")
    assert device[2] - host[2] == 128256 // 12 * 4096 * 2
