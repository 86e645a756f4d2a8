# SPDX-License-Identifier: Apache-2.0
"""The sizes of a language model, out of a configuration as transformers writes it; a new family is a record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ttmem import _toml
from ttmem._errors import BadInputError

_NEEDED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
_FOREIGN = {
    "kv_lora_rank": "attention with compressed keys and values",
    "state_size": "state space layers",
    "ssm_state_size": "state space layers",
    "linear_num_value_heads": "linear attention layers",
    "conv_L_cache": "convolution layers",
    "is_encoder_decoder": "an encoder and a decoder",
}
"""Keys (with a value) of layers that nothing here describes."""
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_DENSE_TOO = ("gemma4", "gemma4_text")
"""Beside the experts these have the feed-forward of ``intermediate_size``."""
_MOST = 1 << 24


@dataclass(frozen=True, slots=True)
class Family:
    """What is in the code of models of these types, not in their configuration."""

    types: tuple[str, ...]
    norms_per_layer: int = 2
    qkv_bias: bool = False
    qk_norm: bool = False
    window_pattern: int = 0
    """Every so many layers one sees the whole context, where the configuration lists no kinds; 0: all do."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    unsaid: str = ""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """A decoder: what recipes may name."""

    family: str
    layers: int
    dim: int
    heads: int
    key_heads: int
    head_dim: int
    hidden: int
    """Of the feed-forward; of one expert where there are experts."""
    vocabulary: int
    positions: int
    tied: bool
    """The head's weight is the embedding's."""
    activation: str
    qkv_bias: bool
    qk_norm: bool
    norms_per_layer: int
    window: int
    """Of layers that see only so many positions; 0: there are none."""
    sliding: tuple[bool, ...]
    local_rope: bool
    """A second rotary table, for layers with a window."""
    experts: int = 0
    experts_per_token: int = 0
    shared_hidden: int = 0
    wide_head_dim: int = 0
    """Of heads in layers whose heads differ; 0: there are none."""
    per_layer: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Layers whose heads differ."""
    assumed: tuple[str, ...] = ()

    def layer(self, number: int) -> dict[str, Any]:
        """Names that differ from layer to layer."""
        own = {"head_dim": self.head_dim, "key_heads": self.key_heads, **self.per_layer.get(number, {})}
        return {"layer": number, "is_sliding": self.sliding[number], **own}


def is_language_config(config: Mapping[str, Any]) -> bool:
    """Whether it describes a decoder of a family that is known."""
    return _family(str(_text_part(config).get("model_type", ""))) is not None


def dimensions_of(config: Mapping[str, Any], where: str = "") -> Dimensions:
    """The sizes that a configuration gives; refuses with what is missing or not known."""
    text, assumed = _text_part(config), list[str]()
    kind = str(text.get("model_type") or config.get("model_type") or "")
    family = _family(kind) or _family(str(config.get("model_type", "")))
    foreign = next((why for key, why in _FOREIGN.items() if text.get(key)), None)
    if foreign and family is None:
        raise BadInputError(
            f"'{kind or 'this model'}' has {foreign}, of which no recipe knows the memory",
            where=where,
            hint=f"known: {', '.join(known_families())}; a PyTorch model can be traced: file.py::load_model",
        )
    if family is None:
        assumed.append(f"the family '{kind}' is not known: taken for a decoder like Llama's")
        family = Family((kind,))
    text = {**family.defaults, **{key: value for key, value in text.items() if value is not None}}
    missing = [key for key in _NEEDED if key not in text]
    if missing:
        raise BadInputError(f"the configuration has no {', '.join(missing)}", where=where, hint="is it a model's?")
    for key in (*_NEEDED, "num_key_value_heads", "intermediate_size", "head_dim"):
        if key in text and not (type(text[key]) is int and 0 < text[key] < _MOST):
            raise BadInputError(f"{key} is {text[key]!r}, not a size", where=where)
    if "vision_config" in config or "audio_config" in config:
        assumed.append("vision and audio towers are not counted: the text model alone")
    if family.unsaid:
        assumed.append(family.unsaid)
    layers = text["num_hidden_layers"] - len(text.get("cross_attention_layers") or ())
    experts = next((int(text[key]) for key in _EXPERTS if text.get(key)), 0)
    heads, dim = text["num_attention_heads"], text["hidden_size"]
    sliding, window = _windows(text, family, layers)
    own_heads = _heads_per_layer(text, sliding)
    hidden = text.get("intermediate_size")
    if hidden is None:
        raise BadInputError("the configuration has no intermediate_size", where=where)
    return Dimensions(
        family=kind,
        layers=layers,
        dim=dim,
        heads=heads,
        key_heads=text.get("num_key_value_heads") or heads,
        head_dim=text.get("head_dim") or dim // heads,
        hidden=(text.get("moe_intermediate_size") or hidden) if experts else hidden,
        vocabulary=text["vocab_size"],
        positions=int(text.get("max_position_embeddings") or 0),
        tied=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        activation="gelu" if "gelu" in str(text.get("hidden_act") or text.get("hidden_activation") or "") else "silu",
        qkv_bias=family.qkv_bias or bool(text.get("attention_bias")),
        qk_norm=family.qk_norm,
        norms_per_layer=family.norms_per_layer,
        window=window,
        sliding=sliding,
        local_rope=_has_local_rope(text),
        experts=experts,
        experts_per_token=int(text.get("num_experts_per_tok") or text.get("top_k_experts") or 0),
        shared_hidden=int(text.get("shared_expert_intermediate_size") or 0)
        or (hidden if kind in _DENSE_TOO and experts else 0),
        wide_head_dim=max((sizes.get("head_dim", 0) for sizes in own_heads.values()), default=0),
        per_layer=own_heads,
        assumed=tuple(assumed),
    )


def known_families() -> list[str]:
    """Model types, sorted."""
    return sorted(_families())


@cache
def _families() -> dict[str, Family]:
    records = _toml.packaged("ttmem.fit.language", "families.toml")["family"]
    families = [Family(**{**record, "types": tuple(record["types"])}) for record in records]
    return {kind: family for family in families for kind in family.types}


def _family(kind: str) -> Family | None:
    return _families().get(kind)


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Models of several kinds of input keep the sizes of their language model in a part of its own."""
    inner = config.get("text_config") or config.get("llm_config")
    return inner if isinstance(inner, Mapping) and "hidden_size" in inner else config


def _windows(text: Mapping[str, Any], family: Family, layers: int) -> tuple[tuple[bool, ...], int]:
    window = text.get("sliding_window")
    if not isinstance(window, int) or text.get("use_sliding_window") is False:
        return (False,) * layers, 0
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and len(kinds) >= layers:
        sliding = tuple(kind == "sliding_attention" for kind in kinds[:layers])
    elif pattern := text.get("sliding_window_pattern") or family.window_pattern:
        sliding = tuple((number + 1) % int(pattern) != 0 for number in range(layers))
    else:
        sliding = (True,) * layers
    return sliding, window if any(sliding) else 0


def _has_local_rope(text: Mapping[str, Any]) -> bool:
    """tt-transformers makes a second table wherever a window is in use, Gemma 3 has one of its own."""
    if text.get("rope_local_base_freq") or "sliding_attention" in (text.get("rope_parameters") or {}):
        return True
    return text.get("sliding_window") is not None and text.get("use_sliding_window") in (None, True)


def _heads_per_layer(text: Mapping[str, Any], sliding: tuple[bool, ...]) -> dict[int, dict[str, int]]:
    """Layers that see the whole context may have heads of another size and number (Gemma 4)."""
    own: dict[int, dict[str, int]] = {}
    whole = {"head_dim": text.get("global_head_dim"), "key_heads": text.get("num_global_key_value_heads")}
    said = {name: int(size) for name, size in whole.items() if size}
    if said:
        own = {number: dict(said) for number, slides in enumerate(sliding) if not slides}
    names = {"head_dim": "head_dim", "num_key_value_heads": "key_heads"}
    for number, sizes in (text.get("per_layer_config") or {}).items():
        changed = {names[key]: int(size) for key, size in sizes.items() if key in names}
        own.setdefault(int(number), {}).update(changed)
    return own
