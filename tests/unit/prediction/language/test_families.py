# SPDX-License-Identifier: Apache-2.0
"""Sizes out of configurations of many families: as many parameters as the model of transformers has, or a refusal."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.model_configurations import LLAMA_8B
from ttmem.base.errors import BadInputError
from ttmem.prediction.language.dimensions import list_families, read_dimensions
from ttmem.prediction.language.stream import apply_recipe, build_language_stream
from ttmem.prediction.request import Request

WITH_TOWERS = {"gemma3", "mllama", "phi4_multimodal", "gemma4", "gemma4_text", "got_ocr2", "gemma4_unified"}
"""Their classes hold more than the text model, or inputs per layer, which the answer says."""
COUNTING = """
import json, sys
import torch, transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES as configs
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as models
found = {}
for kind in sys.argv[1].split(","):
    try:
        config = getattr(transformers, configs[kind])()
        name = models[kind][0] if isinstance(models[kind], (tuple, list)) else models[kind]
        with torch.device("meta"):
            model = getattr(transformers, name)(config)
    except Exception:
        continue  # defaults that the release itself does not take, or a kind that it does not have
    parameters = {id(one): one.numel() for one in model.parameters()}
    found[kind] = {"config": config.to_dict(), "parameters": sum(parameters.values())}
print(json.dumps(found, default=str))
"""


def _parameters(config: dict[str, Any]) -> int:
    layout = apply_recipe(Request("config.json", chips=1), config)
    weights = [one for one in layout.residents() if one.role == "weight"]
    tied = layout.dimensions.tied  # then the head is the embedding, stored twice
    return sum(math.prod(one.step["shape"]) for one in weights if not (tied and one.name == "lm_head.weight"))


def test_every_known_family_has_the_parameters_that_transformers_makes(torch_python: str) -> None:
    kinds = ",".join(kind for kind in list_families() if kind not in WITH_TOWERS)
    done = subprocess.run([torch_python, "-c", COUNTING, kinds], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert len(found) > 30
    ours = {kind: _counted(one["config"]) for kind, one in found.items()}
    assert ours == {kind: one["parameters"] if ours[kind] is not None else None for kind, one in found.items()}
    assert sum(count is None for count in ours.values()) <= 1  # heads that do not divide by default


def _counted(config: dict[str, Any]) -> int | None:
    try:
        return _parameters(config)
    except BadInputError:
        return None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"num_attention_heads": 30}, "30, which 8 key-value heads do not divide"),
        ({"num_attention_heads": 24, "hidden_size": 4100}, "4100, which 24 heads do not divide"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0, not a size"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0, not a size"),
        ({"vocab_size": -5}, "vocab_size is -5, not a size"),
        ({"intermediate_size": [1, 2]}, "not a size"),
        ({"num_local_experts": "8"}, "num_local_experts is '8', not a size"),
        ({"max_position_embeddings": "many"}, "max_position_embeddings is 'many', not a size"),
        ({"model_type": "qwen3_moe", "num_experts": 8, "decoder_sparse_step": "two"}, "not as it should be"),
        ({"per_layer_config": {"a": {"head_dim": "x"}}}, "not as it should be"),
        ({"model_type": "bert"}, "an encoder"),
        ({"model_type": "t5"}, "an encoder and a decoder"),
        ({"model_type": "mamba"}, "a state instead of a cache"),
        ({"model_type": "novel", "rms_norm_eps": None, "layer_norm_eps": 1e-5}, "norms with biases"),
        ({"model_type": "opt", "do_layer_norm_before": False}, "norms behind its layers"),
    ],
)
def test_what_is_wrong_or_not_known_is_refused_with_what_to_do(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInputError, match=told) as refused:
        read_dimensions({**LLAMA_8B, **changes}, "config.json")
    assert refused.value.hint


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 64), st.floats(), st.text(max_size=3), st.just([1]), st.just({})
)
KEYS = (*LLAMA_8B, "head_dim", "num_experts", "layer_types", "sliding_window", "text_config", "rope_parameters")


@given(
    config=st.dictionaries(st.sampled_from(KEYS), ANYTHING),
    kind=st.sampled_from(["llama", "qwen3_moe", "gemma3", "gpt2", "mpt", "falcon", "mllama", "novel", ""]),
)
def test_whatever_a_configuration_holds_it_is_understood_or_bad_input(config: dict[str, Any], kind: str) -> None:
    with contextlib.suppress(BadInputError):
        build_language_stream(
            Request("config.json"), {**LLAMA_8B, "num_hidden_layers": 1, **config, "model_type": kind}
        )


def test_a_stack_refuses_models_that_it_does_not_have() -> None:
    config = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12}
    with pytest.raises(BadInputError, match="has no models like 'gpt2'"):
        apply_recipe(Request("config.json", recipe="tt-transformers:performance"), config)


def test_heads_that_are_no_whole_tiles_do_not_make_a_model_unfit() -> None:
    stream = build_language_stream(Request("config.json"), {**LLAMA_8B, "model_type": "phi3", "head_dim": 96})
    assert any("padded" in text for text in stream.assumed)


SIZES = {
    "hidden_size": st.sampled_from([256, 2048, 4096]),
    "num_hidden_layers": st.integers(1, 3),
    "intermediate_size": st.sampled_from([512, 8192]),
    "vocab_size": st.sampled_from([1000, 128256]),
}


@given(
    sizes=st.fixed_dictionaries(SIZES),
    recipe=st.sampled_from(["generic", "tt-transformers:performance", "tt-transformers:accuracy"]),
    users=st.integers(1, 32),
    context=st.integers(1, 300).map(lambda number: 32 * number),
    more=st.sampled_from(["users", "context", "num_hidden_layers", "intermediate_size"]),
)
def test_more_needs_no_less(sizes: dict[str, int], recipe: str, users: int, context: int, more: str) -> None:
    asked = {"users": users, "context": context}
    config = {**LLAMA_8B, **sizes, "num_attention_heads": 8}
    before = _needed(recipe, asked, config)
    if more in asked:
        after = _needed(recipe, {**asked, more: asked[more] + 32}, config)
    else:
        after = _needed(recipe, asked, {**config, more: config[more] * 2})
    assert after >= before


def _needed(recipe: str, asked: dict[str, int], config: dict[str, Any]) -> int:
    layout = apply_recipe(Request("config.json", recipe=recipe, **asked), config)
    return sum(math.prod(one.step["shape"]) for one in layout.residents() if one.role != "reserve")
