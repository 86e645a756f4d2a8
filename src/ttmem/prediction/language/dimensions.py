# SPDX-License-Identifier: Apache-2.0
"""Read the sizes of a language model from a transformers configuration; a new family is a record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ttmem.base import toml
from ttmem.base.arithmetic import round_up
from ttmem.base.errors import BadInputError

_NEEDED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
_UNSUPPORTED_KEYS = {
    "kv_lora_rank": "attention with compressed keys and values",
    "state_size": "state space layers",
    "ssm_state_size": "state space layers",
    "linear_num_value_heads": "linear attention layers",
    "conv_L_cache": "convolution layers",
    "is_encoder_decoder": "an encoder and a decoder",
}
"""Keys that indicate layers without support here."""
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_DENSE_TOO = ("gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text")
"""These have a feed-forward of ``intermediate_size`` in addition to the experts."""
_MOST = 1 << 24
MOST_LAYERS = 4_096
"""The deepest model has about two hundred; every layer adds tensors and calls."""
PER_LAYER = ("head_dim", "key_heads", "hidden", "experts", "shared_hidden")
"""Sizes that may differ from layer to layer."""
_SIZES = ("num_key_value_heads", "num_kv_heads", "intermediate_size", "head_dim", "expansion_ratio")
_COUNTS = (
    *_EXPERTS,
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "n_shared_experts",
    "max_position_embeddings",
    "first_k_dense_replace",
)
"""Optional keys; these may be 0."""
_DENSE = {"experts": 0, "shared_hidden": 0}


_Flag = bool | str
"""A constant, or the key of the configuration that decides it."""


@dataclass(frozen=True, slots=True)
class DecoderFamily:
    """Facts about model types that are in their code, not in their configuration."""

    types: tuple[str, ...]
    keys: Mapping[str, str] = field(default_factory=dict)
    """Llama's key -> the key of these models."""
    norms_per_layer: int = 2
    norm_bias: _Flag = False
    qkv_bias: _Flag = False
    o_bias: _Flag = False
    mlp_bias: _Flag = False
    head_bias: _Flag = False
    expert_bias: _Flag = False
    gated: _Flag = True
    parallel: _Flag = False
    """Attention and feed-forward see the same input."""
    qk_norm: _Flag = False
    whole_qk_norm: bool = False
    """Over all heads together."""
    embedding_norm: bool = False
    sinks: bool = False
    shared_gate: bool = False
    shared_expert: bool = False
    """As wide as the others."""
    dense_size: str = ""
    """The key of the width of layers without experts."""
    positions: str = "rotary"
    more_positions: int = 0
    window_pattern: int = 0
    """One in N layers sees the whole context, if the configuration lists no kinds; 0: all do."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    unsaid: str = ""
    refused: str = ""
    refused_if: Mapping[str, str] = field(default_factory=dict)
    refused_unless: Mapping[str, str] = field(default_factory=dict)

    def read_flag(self, name: str, text: Mapping[str, Any]) -> bool:
        said = getattr(self, name)
        return bool(text.get(said)) if isinstance(said, str) else bool(said)


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The sizes of a decoder, which recipes may name."""

    family: str
    layers: int
    dim: int
    heads: int
    key_heads: int
    head_dim: int
    hidden: int
    """Width of the feed-forward, or of one expert."""
    vocabulary: int
    positions: int
    tied: bool
    """The head's weight is the embedding's."""
    activation: str
    qkv_bias: bool
    qk_norm: bool
    norms_per_layer: int
    window: int
    """Positions that layers with a window see; 0: there are none."""
    sliding: tuple[bool, ...]
    local_rope: bool
    """A second rotary table, for layers with a window."""
    gated: bool = True
    """The feed-forward has a gate."""
    parallel: bool = False
    rotary: bool = True
    position_rows: int = 0
    """Rows of a learned table of positions."""
    norm_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    expert_bias: bool = False
    embedding_norm: bool = False
    whole_qk_norm: bool = False
    sinks: bool = False
    shared_gate: bool = False
    experts: int = 0
    experts_per_token: int = 0
    shared_hidden: int = 0
    cross_layers: int = 0
    """Layers with attention to images, not counted in ``layers``."""
    vision_layers: int = 0
    vision_dim: int = 0
    vision_hidden: int = 0
    image_tokens: int = 0
    wide_head_dim: int = 0
    """Head dimension in layers whose heads differ; 0: there are none."""
    per_layer: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Layers that differ."""
    assumed: tuple[str, ...] = ()

    def layer(self, number: int) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in PER_LAYER} | dict(self.per_layer.get(number, {}))
        return {"layer": number, "is_sliding": self.sliding[number], **own}


def is_language_config(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration describes a decoder of a known family."""
    family = _find_family(str(_text_part(config).get("model_type", "")))
    return family is not None and not family.refused


def read_dimensions(config: Mapping[str, Any], where: str = "") -> Dimensions:
    """Read the sizes; raise an error that names what is missing or unknown."""
    try:
        return _read_dimensions(config, where)
    except (TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError, OverflowError) as error:
        # Any of dozens of keys may hold anything at all.
        hint = "is it the config.json of a model?"
        raise BadInputError(f"the configuration is not as it should be: {error}", where=where, hint=hint) from error


def _read_dimensions(config: Mapping[str, Any], where: str) -> Dimensions:
    text, assumed = _text_part(config), list[str]()
    kind = str(text.get("model_type") or config.get("model_type") or "")
    family = _find_family(kind) or _find_family(str(config.get("model_type", "")))
    text = {**(family.defaults if family else {}), **{key: value for key, value in text.items() if value is not None}}
    if why := _find_unsupported_part(text, family):
        raise BadInputError(
            f"'{kind or 'this model'}' has {why}, which no recipe describes",
            where=where,
            hint=f"known: {', '.join(list_families())}; a PyTorch model can be traced: hf:NAMEConfig with --seq "
            "alone, or file.py::load_model",
        )
    if family is None:
        assumed.append(f"the family '{kind}' is not known: treated as a decoder like Llama's")
        family = DecoderFamily((kind,))
    text |= {name: text[own] for name, own in family.keys.items() if own in text and name not in text}
    _check(text, family, where)
    images = _read_image_sizes(config, text)
    if not images and ("vision_config" in config or "audio_config" in config):
        assumed.append("vision and audio towers are not counted: the text model alone")
    if family.unsaid and not images:
        assumed.append(family.unsaid)
    layers = text["num_hidden_layers"] - len(text.get("cross_attention_layers") or ())
    experts = next((int(text[key]) for key in _EXPERTS if text.get(key)), 0)
    heads, dim = text["num_attention_heads"], text["hidden_size"]
    sliding, window = _read_windows(text, family, layers)
    hidden = int(text.get("intermediate_size") or text.get("expansion_ratio", 4) * dim)
    width = (text.get("moe_intermediate_size") or hidden) if experts else hidden
    shared = _read_shared_width(text, family, kind, (experts, width, hidden))
    own_sizes = _read_heads_per_layer(text, sliding)
    if experts:
        dense = {**_DENSE, "hidden": int(text.get(family.dense_size) or hidden)}
        for number in _list_dense_layers(text, layers):
            own_sizes.setdefault(number, {}).update(dense)
    positions = int(text.get("max_position_embeddings") or 0)
    is_falcon_40b = bool(text.get("new_decoder_architecture")) and text.get("num_ln_in_parallel_attn") != 1
    flags = ("gated", "parallel", "norm_bias", "o_bias", "mlp_bias", "head_bias", "expert_bias")
    return Dimensions(
        family=kind,
        layers=layers,
        dim=dim,
        heads=heads,
        key_heads=_count_key_heads(text, heads),
        head_dim=text.get("head_dim") or dim // heads,
        hidden=width,
        vocabulary=text["vocab_size"],
        positions=positions,
        tied=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        activation="gelu" if "gelu" in str(text.get("hidden_act") or text.get("hidden_activation") or "") else "silu",
        qkv_bias=family.read_flag("qkv_bias", text) or (bool(text.get("attention_bias")) and family.qkv_bias is False),
        qk_norm=family.read_flag("qk_norm", text),
        norms_per_layer=2 if is_falcon_40b or text.get("parallel_attn") is False else family.norms_per_layer,
        window=window,
        sliding=sliding,
        local_rope=_has_local_rope(text),
        **{name: family.read_flag(name, text) for name in flags},
        rotary=family.positions == "rotary" and not text.get("alibi"),
        position_rows=positions + family.more_positions if family.positions == "learned" else 0,
        embedding_norm=family.embedding_norm,
        whole_qk_norm=family.whole_qk_norm,
        sinks=family.sinks,
        shared_gate=family.shared_gate and shared > 0,
        experts=experts,
        experts_per_token=int(text.get("num_experts_per_tok") or text.get("top_k_experts") or 0),
        shared_hidden=shared,
        wide_head_dim=max((sizes.get("head_dim", 0) for sizes in own_sizes.values()), default=0),
        per_layer=own_sizes,
        **images,
        assumed=tuple(assumed),
    )


_TOWER_KEYS = (
    "image_size", "patch_size", "num_hidden_layers", "num_global_layers", "hidden_size", "intermediate_size"
)  # fmt: skip


def _read_image_sizes(config: Mapping[str, Any], text: Mapping[str, Any]) -> dict[str, Any]:
    """Read the image layers and the vision tower of Llama 3.2."""
    tower = config.get("vision_config")
    if not isinstance(tower, Mapping) or not text.get("cross_attention_layers"):
        return {}
    sizes = {key: tower.get(key) for key in (*_TOWER_KEYS, "max_num_tiles")}
    if not all(type(size) is int and 0 < size < _MOST for size in sizes.values()):
        return {}
    patches = (tower["image_size"] // tower["patch_size"]) ** 2 + 1  # and a class token
    return {
        "cross_layers": len(text["cross_attention_layers"]),
        "vision_layers": tower["num_hidden_layers"] + tower["num_global_layers"],
        "vision_dim": tower["hidden_size"],
        "vision_hidden": tower["intermediate_size"],
        "image_tokens": tower["max_num_tiles"] * round_up(patches, 32),
    }


def _find_unsupported_part(text: Mapping[str, Any], family: DecoderFamily | None) -> str:
    """Return the first part of the model without support here; empty if there is none."""
    if family is None:
        found = next((why for key, why in _UNSUPPORTED_KEYS.items() if text.get(key)), "")
        is_like_llama = "rms_norm_eps" in text or not {"layer_norm_eps", "layer_norm_epsilon"} & text.keys()
        return found or ("" if is_like_llama else "norms with biases, unlike a Llama")
    if family.refused:
        return family.refused
    reasons = [why for key, why in family.refused_if.items() if text.get(key)]
    return next(iter([*reasons, *(why for key, why in family.refused_unless.items() if not text.get(key))]), "")


def _check(text: Mapping[str, Any], family: DecoderFamily, where: str) -> None:
    missing = [family.keys.get(key, key) for key in _NEEDED if key not in text]
    if family.gated and "intermediate_size" not in text:
        missing.append("intermediate_size")
    if missing:
        raise BadInputError(f"the configuration has no {', '.join(missing)}", where=where, hint="is it a model's?")
    for key in (*_NEEDED, *_SIZES, *_COUNTS):
        least = 0 if key in _COUNTS else 1
        if key in text and not (type(text[key]) is int and least <= text[key] < _MOST):
            raise BadInputError(f"{key} is {text[key]!r}, not a size", where=where, hint=f"--set {key}=NUMBER")
    if text["num_hidden_layers"] > MOST_LAYERS:
        told = f"num_hidden_layers is {text['num_hidden_layers']:,}; {MOST_LAYERS:,} is the most"
        raise BadInputError(told, where=where, hint="--set num_hidden_layers=NUMBER")
    heads, key_heads = text["num_attention_heads"], _count_key_heads(text, text["num_attention_heads"])
    if heads % key_heads:
        raise BadInputError(
            f"num_attention_heads is {heads}, which {key_heads} key-value heads do not divide",
            where=where,
            hint="--set num_key_value_heads=NUMBER",
        )
    if not text.get("head_dim") and text["hidden_size"] % heads:
        raise BadInputError(
            f"hidden_size is {text['hidden_size']}, which {heads} heads do not divide",
            where=where,
            hint="--set head_dim=NUMBER",
        )
    cross = text.get("cross_attention_layers") or ()
    if not isinstance(cross, list | tuple) or len(cross) >= text["num_hidden_layers"]:
        raise BadInputError("cross_attention_layers leaves no layer", where=where)


def _count_key_heads(text: Mapping[str, Any], heads: int) -> int:
    """Count the heads of keys; Falcon and StarCoder have a flag for one."""
    if text.get("new_decoder_architecture"):
        return int(text.get("num_kv_heads") or heads)
    if text.get("multi_query"):
        return 1
    return int(text.get("num_key_value_heads") or heads)


def _list_dense_layers(text: Mapping[str, Any], layers: int) -> list[int]:
    """List the layers without experts in a model that has them."""
    listed = text.get("moe_layers")
    if isinstance(listed, list):
        return [number for number in range(layers) if number not in listed]
    step = int(text.get("decoder_sparse_step") or text.get("interleave_moe_layer_step") or 1)
    first, alone = int(text.get("first_k_dense_replace") or 0), text.get("mlp_only_layers") or ()
    return [number for number in range(layers) if number < first or (number + 1) % step or number in alone]


def _read_shared_width(text: Mapping[str, Any], family: DecoderFamily, kind: str, sizes: tuple[int, int, int]) -> int:
    """Return the width of the expert that sees every token."""
    experts, width, hidden = sizes
    if not experts:
        return 0
    if family.shared_expert:
        return width
    own = text.get("shared_expert_intermediate_size") or text.get("shared_intermediate_size")
    return int(own or int(text.get("n_shared_experts") or 0) * width or (hidden if kind in _DENSE_TOO else 0))


def list_families() -> list[str]:
    return sorted(kind for kind, family in _load_families().items() if not family.refused)


@cache
def _load_families() -> dict[str, DecoderFamily]:
    records = toml.load_packaged("ttmem.prediction.language", "families.toml")["family"]
    families = [DecoderFamily(**{**record, "types": tuple(record["types"])}) for record in records]
    return {kind: family for family in families for kind in family.types}


def _find_family(kind: str) -> DecoderFamily | None:
    return _load_families().get(kind)


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of the configuration with the language model's sizes."""
    inner = config.get("text_config") or config.get("llm_config")
    return inner if isinstance(inner, Mapping) and "hidden_size" in inner else config


def _read_windows(text: Mapping[str, Any], family: DecoderFamily, layers: int) -> tuple[tuple[bool, ...], int]:
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
    """Return whether there is a second rotary table: tt-transformers adds one for windows, Gemma 3 has its own."""
    if text.get("rope_local_base_freq") or "sliding_attention" in (text.get("rope_parameters") or {}):
        return True
    return text.get("sliding_window") is not None and text.get("use_sliding_window") in (None, True)


def _read_heads_per_layer(text: Mapping[str, Any], sliding: tuple[bool, ...]) -> dict[int, dict[str, int]]:
    """Read heads per layer: layers that see the whole context may have other heads (Gemma 4)."""
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
