# SPDX-License-Identifier: Apache-2.0
"""Configurations of published models, as far as memory depends on them; public facts."""

from __future__ import annotations

from typing import Any

COMMON = {"rms_norm_eps": 1e-5, "hidden_act": "silu", "max_position_embeddings": 131072, "tie_word_embeddings": False}
LLAMA_8B: dict[str, Any] = {
    **COMMON,
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
QWEN3_32B = {
    **LLAMA_8B,
    "model_type": "qwen3",
    "hidden_size": 5120,
    "intermediate_size": 25600,
    "num_hidden_layers": 64,
    "num_attention_heads": 64,
    "head_dim": 128,
    "vocab_size": 151936,
}
MIXTRAL = {**LLAMA_8B, "model_type": "mixtral", "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2}
GEMMA_3_4B = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
    "vision_config": {"hidden_size": 1152},
}
GEMMA_4 = {
    **LLAMA_8B,
    "model_type": "gemma4_text",
    "hidden_size": 3840,
    "num_attention_heads": 16,
    "sliding_window": 1024,
    "layer_types": ["full_attention"] * 32,
    "head_dim": 256,
    "global_head_dim": 512,
    "num_global_key_value_heads": 1,
}
