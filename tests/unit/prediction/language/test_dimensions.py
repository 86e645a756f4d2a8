# SPDX-License-Identifier: Apache-2.0
"""Sizes out of configurations: families, parts for text, what is refused and what is said."""

from __future__ import annotations

import pytest

from support.model_configurations import GEMMA_3_4B, LLAMA_8B, MIXTRAL, QWEN3_32B
from ttmem.base.errors import BadInputError
from ttmem.prediction.language.dimensions import is_language_config, read_dimensions


def test_a_llama_says_all_of_itself() -> None:
    sizes = read_dimensions(LLAMA_8B)
    assert (sizes.dim, sizes.heads, sizes.key_heads, sizes.head_dim) == (4096, 32, 8, 128)
    assert (sizes.hidden, sizes.tied, sizes.experts, sizes.local_rope, sizes.assumed) == (14336, False, 0, False, ())


def test_heads_may_be_wider_than_the_model() -> None:
    sizes = read_dimensions(QWEN3_32B)
    assert (sizes.head_dim, sizes.dim // sizes.heads, sizes.qk_norm) == (128, 80, True)


def test_a_part_for_text_and_the_code_of_a_family_fill_in_what_is_not_written() -> None:
    sizes = read_dimensions(GEMMA_3_4B)
    assert (sizes.vocabulary, sizes.heads, sizes.key_heads, sizes.head_dim) == (262208, 8, 4, 256)
    assert (sizes.tied, sizes.norms_per_layer, sizes.activation, sizes.local_rope) == (True, 4, "silu", True)
    # five layers with a window, then one that sees everything
    assert sizes.sliding[:7] == (True, True, True, True, True, False, True)
    assert "towers" in sizes.assumed[0]


def test_layers_may_have_heads_of_their_own() -> None:
    text = {**LLAMA_8B, "model_type": "gemma4_text", "sliding_window": 512, "global_head_dim": 512}
    sizes = read_dimensions({**text, "num_global_key_value_heads": 2})
    same = {"hidden": 14336, "experts": 0, "shared_hidden": 0}
    assert sizes.layer(4) == {"layer": 4, "is_sliding": True, "head_dim": 256, "key_heads": 8, **same}
    assert sizes.layer(5) == {"layer": 5, "is_sliding": False, "head_dim": 512, "key_heads": 2, **same}


def test_experts_are_counted() -> None:
    sizes = read_dimensions(MIXTRAL)
    assert (sizes.experts, sizes.experts_per_token, sizes.hidden) == (8, 2, 14336)


def test_an_unknown_family_with_the_keys_of_a_llama_is_taken_for_one_and_that_is_said() -> None:
    config = {**LLAMA_8B, "model_type": "novel"}
    assert not is_language_config(config)
    assert read_dimensions(config).assumed == ("the family 'novel' is not known: treated as a decoder like Llama's",)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({**LLAMA_8B, "model_type": "deepseek_v3", "kv_lora_rank": 512}, "compressed keys and values"),
        ({"model_type": "llama", "vocab_size": 10}, "has no hidden_size, num_hidden_layers, num_attention_heads"),
        ({**LLAMA_8B, "hidden_size": "4096"}, "hidden_size is '4096', not a size"),
        ({**LLAMA_8B, "num_hidden_layers": True}, "num_hidden_layers is True"),
        ({**LLAMA_8B, "intermediate_size": None}, "no intermediate_size"),
    ],
)
def test_what_cannot_be_known_is_refused_with_its_reason(config: dict[str, object], told: str) -> None:
    with pytest.raises(BadInputError, match=told) as refused:
        read_dimensions(config, "config.json")
    assert refused.value.where == "config.json"
