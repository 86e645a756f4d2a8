# SPDX-License-Identifier: Apache-2.0
"""Build the stream of a language model: residents from a recipe, then buffers of stages or calls of a decoder."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ttmem.prediction.language.configuration import model_name, read_config
from ttmem.prediction.language.decoder import Decoder
from ttmem.prediction.language.dimensions import read_dimensions
from ttmem.prediction.language.layout import RecipeLayout
from ttmem.prediction.language.recipe import CALLS, open_recipe
from ttmem.prediction.request import Request
from ttmem.prediction.stream import ModelCall, Stream


def build_stream(request: Request) -> Stream:
    return build_language_stream(request, read_config(request))


def build_language_stream(request: Request, config: Mapping[str, Any]) -> Stream:
    """Build one chip's share of the model."""
    layout = apply_recipe(request, config)
    calls, more = build_pass(layout, layout.dimensions.layers)
    return Stream(
        name=model_name(request, config),
        residents=layout.residents(),
        calls=calls,
        assumed=(*_list_assumptions(layout), *layout.dimensions.assumed, *more),
        error_bound_percent=layout.recipe.error_percent,
        facts={
            "recipe": layout.recipe.name,
            "chips": layout.chips,
            "phase": layout.phase,
            "users": layout.users,
            "context": layout.context,
            "prefill_tokens": layout.scope.names.get("tokens") if layout.phase == "prefill" else None,
            "reserve_percent": layout.recipe.reserve_percent or None,
        },
    )


def apply_recipe(request: Request, config: Mapping[str, Any]) -> RecipeLayout:
    return RecipeLayout(request, read_dimensions(config, request.target), open_recipe(request.recipe))


def build_pass(layout: RecipeLayout, layers: int) -> tuple[tuple[ModelCall, ...], Sequence[str]]:
    """Build the calls of a pass through some of the layers; return them with their assumptions."""
    layers = min(layers, layout.dimensions.layers)
    if layout.recipe.forward == CALLS:
        decoder = Decoder(layout)
        return tuple(decoder.calls(layers)), decoder.assumed
    return tuple(layout.stages(layers)), ()


def _list_assumptions(layout: RecipeLayout) -> list[str]:
    recipe = layout.recipe
    said = [f"laid out by the recipe '{recipe.name}' on {layout.chips} chip{'s' * (layout.chips > 1)}"]
    if layout.request.chips is None and layout.chips < layout.board_chips:
        heads = layout.dimensions.key_heads
        said.append(f"{heads} key-value heads cannot be divided among the board's {layout.board_chips} chips (--chips)")
    if layout.chips > layout.board_chips:
        cards = -(-layout.chips // layout.board_chips)
        said.append(f"{layout.chips} chips are {cards} boards of {layout.board_chips}, joined to one mesh")
    if layout.request.users is None or (layout.request.context is None and layout.request.sequence is None):
        said.append(f"{layout.users} user{'s' * (layout.users > 1)} of {layout.context:,} tokens (--users, --context)")
    if recipe.reserve_percent:
        said.append(f"{recipe.reserve_percent:g} % of DRAM is kept free (reserve_percent)")
    if layout.trace_bytes:
        said.append(f"a trace region of {layout.trace_bytes:,} bytes")
    if layout.request.phase is None:
        said.append("prefill of one prompt; decoding needs less DRAM")
    said += list(_list_changes_without_layers(layout))
    said += [remark.text for remark in recipe.assumed if layout.scope.holds(remark.when)]
    positions = layout.dimensions.positions
    if positions and layout.context > positions:
        said.append(f"the context is longer than the {positions:,} positions that the model was made for")
    return said


def _list_changes_without_layers(layout: RecipeLayout) -> Iterator[str]:
    """Yield a remark for each layer that a recipe changes and the model does not have."""
    layers = layout.dimensions.layers
    for change in layout.recipe.change:
        beyond = [layer for layer in change.layers if layer >= layers]
        if beyond and layout.scope.holds(change.when):
            yield f"the recipe changes layer {beyond[0]}, which a model with {layers} layers does not have: no effect"
