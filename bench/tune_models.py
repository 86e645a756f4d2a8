# SPDX-License-Identifier: Apache-2.0
"""Drives functional models of a tt-metal checkout with random weights: scripts of ours around code that is not edited.

    python tune_models.py NAME

``tune_real.py`` copies the model's file beside this one and runs it; what else it imports comes from the checkout that
``PYTHONPATH`` names.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch
import transformers
import ttnn
from ttnn.model_preprocessing import preprocess_model_parameters

MODELS = {
    "bert": "models/demos/bert/tt/ttnn_bert.py",
    "optimized-bert": "models/demos/bert/tt/ttnn_optimized_bert.py",
    "sharded-bert": "models/demos/bert/tt/ttnn_optimized_sharded_bert.py",
    "squeezebert": "models/demos/squeezebert/tt/ttnn_functional_squeezebert.py",
}
"""Name -> file of the checkout."""
SIZES = {"sharded-bert": {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}}
"""Of those that are written for one size."""
_BATCH, _LENGTH, _LAYERS = 8, 384, 2


def _inputs(code: Any, config: Any, device: Any) -> Any:
    ids = torch.randint(0, config.vocab_size, (_BATCH, _LENGTH)).to(torch.int32)
    none = torch.zeros((_BATCH, _LENGTH), dtype=torch.int32)
    return code.preprocess_inputs(ids, none, none, torch.ones(_BATCH, _LENGTH), device=device)


def main(name: str) -> None:
    """One pass."""
    code = importlib.import_module(MODELS[name].rpartition("/")[2].removesuffix(".py"))
    squeezed = name == "squeezebert"
    kind = transformers.SqueezeBertConfig if squeezed else transformers.BertConfig
    config = kind(num_hidden_layers=_LAYERS, **SIZES.get(name, {}))
    whole = transformers.SqueezeBertForQuestionAnswering if squeezed else transformers.BertForQuestionAnswering
    model = whole(config).eval()
    if hasattr(code, "update_model_config"):
        config = code.update_model_config(config, _BATCH)
    device = ttnn.open_device(device_id=0, l1_small_size=24576)
    parameters = preprocess_model_parameters(
        initialize_model=lambda: model, custom_preprocessor=code.custom_preprocessor, device=device
    )
    inputs = _inputs(code, config, device)
    if squeezed:
        more = {"state_dict": model.state_dict(), "base_addr": "transformer.", "device": device}
        code.squeezebert_for_question_answering(config, *inputs, parameters=parameters, **more)
    else:
        code.bert_for_question_answering(config, *inputs, parameters=parameters)
    ttnn.close_device(device)


if __name__ == "__main__":
    main(sys.argv[1])
