# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for ``bench/real_code.py``: models whose weights are not at hand get random ones.

What a model needs in memory follows from its configuration, not from its weights. So where a test asks a hub for a
checkpoint, the class is built from its configuration; a state that is not there leaves a module as it was made; and
packages that only load data sets are replaced by empty ones. Tests of the checkout run unedited with and without ttmem.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Any

_BERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
_SIZES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("distil-large-v3", "WhisperConfig", {
        "d_model": 1280, "encoder_layers": 32, "decoder_layers": 2, "encoder_attention_heads": 20,
        "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "vocab_size": 51866,
        "num_mel_bins": 128,
    }),
    ("whisper", "WhisperConfig", {}),
    ("bge-large|bert-large", "BertConfig", _BERT_LARGE),
    ("distilbert", "DistilBertConfig", {}),
    ("squeezebert", "SqueezeBertConfig", {}),
    ("bert", "BertConfig", {}),
    ("owlvit", "OwlViTConfig", {}),
    ("vit", "ViTConfig", {}),
    ("segformer|mit-b0", "SegformerConfig", {}),
    ("gpt2", "GPT2Config", {}),
    ("t5", "T5Config", {}),
    ("falcon-7b", "FalconConfig", {"num_hidden_layers": 2}),
)  # fmt: skip
"""Part of a checkpoint's name, its configuration's class, and what differs from that class's defaults."""
_ABSENT = ("datasets", "evaluate", "librosa", "soundfile", "jiwer", "llama_models", "tiktoken", "cv2", "torchaudio")


def _known(name: object) -> tuple[str, dict[str, Any]] | None:
    return next(((kind, more) for part, kind, more in _SIZES if re.search(part, str(name), re.IGNORECASE)), None)


def _or_else(owner: Any, name: str, instead: Any) -> None:
    """Where the original finds nothing, ``instead(class, name of the checkpoint)`` answers."""
    original = getattr(owner, name).__func__

    @functools.wraps(original)
    def ask(cls: Any, checkpoint: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return original(cls, checkpoint, *arguments, **options)
        except (OSError, ValueError):
            made = instead(cls, checkpoint)
            if made is None:
                raise
            return made

    setattr(owner, name, classmethod(ask))


def _without_hub() -> None:
    import transformers
    from transformers.models.auto import auto_factory

    def configuration(cls: Any, checkpoint: Any) -> Any:
        known = _known(checkpoint)
        if known is None:
            return None if cls is transformers.AutoConfig else cls()
        kind = getattr(transformers, known[0])
        return kind(**known[1]) if cls is transformers.AutoConfig or issubclass(kind, cls) else cls()

    def model(cls: Any, checkpoint: Any) -> Any:
        if cls.config_class is None:
            return None
        return cls(configuration(cls.config_class, checkpoint)).eval()

    def automatic(cls: Any, checkpoint: Any) -> Any:
        found = configuration(transformers.AutoConfig, checkpoint)
        return None if found is None else cls.from_config(found).eval()

    _or_else(transformers.PretrainedConfig, "from_pretrained", configuration)
    _or_else(transformers.AutoConfig, "from_pretrained", configuration)
    _or_else(transformers.PreTrainedModel, "from_pretrained", model)
    _or_else(auto_factory._BaseAutoModelClass, "from_pretrained", automatic)
    images = transformers.AutoImageProcessor
    _or_else(images, "from_pretrained", lambda *_: transformers.ViTImageProcessor())
    kind = transformers.SegformerImageProcessor
    _or_else(kind, "from_pretrained", lambda cls, _: cls())


def _random_weights() -> None:
    """A file or an address of weights that is not there is an empty state, and an empty state changes nothing."""
    import torch
    import torch.hub

    original, load = torch.nn.Module.load_state_dict, torch.load

    def load_state(module: Any, state: Any, *arguments: Any, **options: Any) -> Any:
        return original(module, state, *arguments, **options) if state else None

    def read(file: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return load(file, *arguments, **options)
        except (FileNotFoundError, EOFError):  # a download that failed leaves an empty file
            return {}

    torch.nn.Module.load_state_dict = load_state  # type: ignore[method-assign]
    torch.load = read
    torch.hub.load_state_dict_from_url = lambda *_, **__: {}
    if importlib.util.find_spec("torchvision"):
        from torchvision.models import _api

        _api.WeightsEnum.get_state_dict = lambda *_, **__: {}
    if importlib.util.find_spec("timm"):
        import timm

        create = timm.create_model

        def bare(name: str, *arguments: Any, **options: Any) -> Any:
            plain = name.rpartition("/")[2].partition(".")[0]
            return create(plain, *arguments, **{**options, "pretrained": False})

        timm.create_model = bare


class _Anything(types.ModuleType):
    """A module that is not installed: it can be imported from, and says so when it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def absent(*_: Any, **__: Any) -> Any:
            raise ModuleNotFoundError(f"{self.__name__}.{name} is not installed")

        return absent


_random_weights()
if importlib.util.find_spec("transformers"):
    _without_hub()
for _name in _ABSENT:  # after those that look for them
    if importlib.util.find_spec(_name) is None:
        sys.modules[_name] = _Anything(_name)
        sys.modules[_name].__spec__ = ModuleSpec(_name, None)
