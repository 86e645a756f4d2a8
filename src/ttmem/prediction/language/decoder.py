# SPDX-License-Identifier: Apache-2.0
"""Write the ttnn calls of one chip's share of a decoder; the names of its weights are the recipe's.

Collectives cannot be played on one chip. Their result is allocated instead: the gathered or reduced
tensor next to the partial one.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from ttmem.hardware import open_board
from ttmem.prediction.language.layout import RecipeLayout
from ttmem.prediction.language.scope import Scope
from ttmem.prediction.request import DECODE, EAGER, PREFILL
from ttmem.prediction.stream import ModelCall, Step, alloc_step, call_step

_LAST_ROWS = 32
"""Rows of a prompt with logits: a row of tiles."""
_WIDEST_HEAD = 256
_TILE = 32
_WHOLE_HEAD = 64
"""The library rotates and divides heads of whole pairs of tiles; others a port pads, which takes the same memory."""
ASSUMED_CHIPS = "collectives are counted as their result next to the partial tensor"
ASSUMED_CHUNKS = "attention of a chunk to the cache is counted as its result alone"
ASSUMED_HEADS = "heads that are not of whole tiles are counted padded: the library refuses them otherwise"
ASSUMED_CACHE_WRITE = "writing a row into the cache takes no memory of its own"


_Calls = Generator[ModelCall, None, str]
"""Calls, and at the end the name of the tensor that they come to."""


class Decoder:
    """Writes the calls of a pass in order; a tensor is freed by the call that uses it last."""

    def __init__(self, layout: RecipeLayout) -> None:
        self._layout = layout
        self._dtype = layout.request.dtype
        self._chips = layout.chips
        self._number = 0
        self.assumed: list[str] = list(_list_assumptions(layout))

    def calls(self, layers: int) -> Iterator[ModelCall]:
        """Yield the calls from the tokens through ``layers`` layers to the logits."""
        self._rows = self._layout.scope.number("tokens") if self._layout.phase == PREFILL else self._layout.users
        hidden = yield from self._embed("model.embed_tokens")
        for number in range(layers):
            hidden = yield from self._layer(hidden, self._layout.layer_scope(number))
        yield from self._head(hidden)

    def _embed(self, module: str) -> _Calls:
        dim = self._layout.dimensions.dim
        made, shaped, hidden = self._name(), self._name(), self._name()
        if self._layout.is_on_host(f"{module}.weight"):
            yield ModelCall("upload", (self._alloc(hidden, [1, 1, self._rows, dim]),), (), module)
            return hidden
        given = ["input_ids", f"{module}.weight"]
        yield self._call_one("embedding", given, made, module, layout={"layout": "tile"})
        yield self._call_one("reshape", [made, [1, 1, self._rows, dim // self._chips]], shaped, module, frees=(made,))
        if self._chips > 1:
            yield self._collective("all_gather", hidden, [1, 1, self._rows, dim], module, (shaped,))
            shaped = hidden
        sizes = self._layout.dimensions
        if sizes.position_rows:
            placed, summed = self._name(), self._name()
            yield ModelCall("positions", (self._alloc(placed, [1, 1, self._rows, dim]),), (), "model.embed_positions")
            yield self._call_one("add", [shaped, placed], summed, "model.embed_positions", frees=(shaped, placed))
            shaped = summed
        return (yield from self._normalize(shaped, "model.embed_norm")) if sizes.embedding_norm else shaped

    # --- a layer ------------------------------------------------------------------------------------------------------

    def _layer(self, hidden: str, scope: Scope) -> _Calls:
        module = f"model.layers.{scope.names['layer']}"
        if self._layout.dimensions.parallel:
            return (yield from self._parallel_layer(hidden, module, scope))
        post = self._layout.dimensions.norms_per_layer > 2
        normed = self._name()
        yield self._norm(hidden, f"{module}.input_layernorm", normed)
        attended = yield from self._attention(normed, f"{module}.self_attn", scope)
        if post:
            attended = yield from self._normalize(attended, f"{module}.post_attention_layernorm")
        summed = self._name()
        yield self._call_one("add", [hidden, attended], summed, module, frees=(hidden, attended))
        norm = "pre_feedforward_layernorm" if post else "post_attention_layernorm"
        normed = self._name()
        yield self._norm(summed, f"{module}.{norm}", normed)
        fed = yield from self._feed_forward(normed, f"{module}.mlp", scope)
        if post:
            fed = yield from self._normalize(fed, f"{module}.post_feedforward_layernorm")
        result = self._name()
        yield self._call_one("add", [summed, fed], result, module, frees=(summed, fed))
        return result

    def _parallel_layer(self, hidden: str, module: str, scope: Scope) -> _Calls:
        """Attention and feed-forward of the same input; with two norms each has its own."""
        first, second, both, result = (self._name() for _ in range(4))
        yield self._norm(hidden, f"{module}.input_layernorm", first)
        own = self._layout.dimensions.norms_per_layer > 1
        yield self._norm(hidden, f"{module}.{'post_attention' if own else 'input'}_layernorm", second)
        attended = yield from self._attention(first, f"{module}.self_attn", scope)
        fed = yield from self._feed_forward(second, f"{module}.mlp", scope)
        yield self._call_one("add", [attended, fed], both, module, frees=(attended, fed))
        yield self._call_one("add", [hidden, both], result, module, frees=(hidden, both))
        return result

    def _normalize(self, source: str, module: str) -> _Calls:
        made = self._name()
        yield self._norm(source, module, made, frees=(source,))
        return made

    def _norm(self, source: str, module: str, made: str, frees: Sequence[str] = ()) -> ModelCall:
        sizes = self._layout.dimensions
        name = "layer_norm" if sizes.norm_bias else "rms_norm"
        given: dict[str, Any] = {"weight": {"tensor": f"{module}.weight"}} if sizes.norms_per_layer else {}
        if sizes.norm_bias:
            given["bias"] = {"tensor": f"{module}.bias"}
        return self._call_one(name, [source], made, module, frees, **given, epsilon=1e-5)

    def _attention(self, normed: str, module: str, scope: Scope) -> _Calls:
        named = scope.names
        heads, key_heads = named["heads"] // self._chips, max(named["key_heads"] // self._chips, 1)
        width = named["head_dim"]
        qkv = self._name()
        bias = self._bias(f"{module}.qkv_proj", named["qkv_bias"])
        yield self._linear(normed, f"{module}.qkv_proj", qkv, (normed,), **bias)
        query, key, value = self._name(), self._name(), self._name()
        yield self._split_heads(qkv, (query, key, value), module, (heads, key_heads, width))
        if named["qk_norm"] and not named["whole_qk_norm"]:
            query = yield from self._normalize(query, f"{module}.q_norm")
            key = yield from self._normalize(key, f"{module}.k_norm")
        if named["rotary"]:
            query = yield from self._rotate(query, module, (heads, width))
            key = yield from self._rotate(key, module, (key_heads, width))
        if self._layout.phase == DECODE:
            context = yield from self._attend_to_cache(query, key, value, module, width)
        else:
            context = yield from self._attend(query, key, value, module, (heads, key_heads, width))
        joined = self._name()
        if width % _WHOLE_HEAD:
            steps = (self._alloc(joined, [1, 1, self._rows, heads * width]),)
            yield ModelCall("ttnn.experimental.nlp_concat_heads", steps, (context,), module)
        else:
            yield self._call_one("experimental.nlp_concat_heads", [context], joined, module, frees=(context,))
        made = self._name()
        yield self._linear(
            joined, f"{module}.o_proj", made, (joined,), **self._bias(f"{module}.o_proj", named["o_bias"])
        )
        return (yield from self._reduce(made, module))

    def _split_heads(self, qkv: str, made: tuple[str, str, str], module: str, sizes: tuple[int, int, int]) -> ModelCall:
        heads, key_heads, width = sizes
        name = "experimental.nlp_create_qkv_heads"
        if width % _WHOLE_HEAD:
            counts = zip(made, (heads, key_heads, key_heads), strict=True)
            steps = tuple(self._alloc(tensor, [1, count, self._rows, width]) for tensor, count in counts)
            return ModelCall(f"ttnn.{name}", steps, (qkv,), module)
        options = {"num_heads": heads, "num_kv_heads": key_heads, "transpose_k_heads": False}
        return self._call_one(name, [qkv], list(made), module, (qkv,), **options)

    def _rotate(self, source: str, module: str, sizes: tuple[int, int]) -> _Calls:
        made = self._name()
        if sizes[1] % _WHOLE_HEAD:
            steps = (self._alloc(made, [1, sizes[0], self._rows, sizes[1]]),)
            yield ModelCall("ttnn.experimental.rotary_embedding", steps, (source,), module)
            return made
        tables = "rope" if sizes[1] == self._layout.dimensions.head_dim else "rope.wide"
        given = [source, f"{tables}.cos", f"{tables}.sin"]
        yield self._call_one("experimental.rotary_embedding", given, made, module, frees=(source,))
        if self._rows % 32 == 0:
            return made
        cut = self._name()  # the rotation makes whole tiles of rows
        ends = [1, sizes[0], self._rows, sizes[1]]
        yield self._call_one("slice", [made, [0, 0, 0, 0], ends], cut, module, frees=(made,))
        return cut

    def _attend(self, query: str, key: str, value: str, module: str, sizes: tuple[int, int, int]) -> _Calls:
        cache_type = self._layout.data_type("cache")
        for tensor, cache in ((key, "k_cache"), (value, "v_cache")):
            written, given = tensor, tuple[str, ...]()
            if cache_type != self._dtype:
                written = self._name()
                given = (written,)
                yield self._call_one("typecast", [tensor, {"dtype": cache_type}], written, module)
            yield self._call_one("fill_cache", [f"{module}.{cache}", written, 0], "", module, given)
        context, frees = self._name(), (query, key, value)
        if self._rows < -(-self._layout.prompt // 32) * 32 or sizes[2] % _TILE:
            shape = [1, sizes[0], self._rows, sizes[2]]
            chunked = "" if sizes[2] % _TILE else "chunked_"
            name = f"ttnn.transformer.{chunked}scaled_dot_product_attention"
            yield ModelCall(name, (self._alloc(context, shape),), frees, module)
        elif self._layout.request.attention == EAGER:
            yield from self._eager((query, key, value), context, module, sizes)
        else:
            name = "transformer.scaled_dot_product_attention"
            yield self._call_one(name, frees, context, module, frees, is_causal=True)
        return context

    def _eager(
        self, given: tuple[str, str, str], context: str, module: str, sizes: tuple[int, int, int]
    ) -> Iterator[ModelCall]:
        """Scores of every position to every other, which fused attention never has as a whole."""
        (query, key, value), (heads, key_heads, _) = given, sizes
        if heads > key_heads:
            key = yield from self._repeat_heads(key, module, sizes)
            value = yield from self._repeat_heads(value, module, sizes)
        turned, scores, shares = self._name(), self._name(), self._name()
        yield self._call_one("transpose", [key, -2, -1], turned, module, frees=(key,))
        yield self._call_one("matmul", [query, turned], scores, module, frees=(query, turned))
        yield self._call_one("softmax", [scores], shares, module, (scores,), dim=-1, numeric_stable=True)
        yield self._call_one("matmul", [shares, value], context, module, frees=(shares, value))

    def _repeat_heads(self, source: str, module: str, sizes: tuple[int, int, int]) -> _Calls:
        """Each head of keys as often as there are queries for it."""
        heads, key_heads, width = sizes
        apart, repeated, made = self._name(), self._name(), self._name()
        yield self._call_one("reshape", [source, [key_heads, 1, self._rows, width]], apart, module, frees=(source,))
        yield self._call_one("repeat", [apart, [1, heads // key_heads, 1, 1]], repeated, module, frees=(apart,))
        yield self._call_one("reshape", [repeated, [1, heads, self._rows, width]], made, module, frees=(repeated,))
        return made

    def _attend_to_cache(self, query: str, key: str, value: str, module: str, width: int) -> _Calls:
        turned, context, back = self._name(), self._name(), self._name()
        if width % _TILE:
            heads = self._layout.dimensions.heads // self._chips
            steps = (self._alloc(back, [1, heads, self._rows, width]),)
            name = "ttnn.transformer.scaled_dot_product_attention_decode"
            yield ModelCall(name, steps, (query, key, value), module)
            return back
        yield self._call_one("transpose", [query, 1, 2], turned, module, frees=(query, key, value))
        name = "transformer.scaled_dot_product_attention_decode"
        positions = [self._layout.context - 1] * self._layout.users
        chunks: dict[str, Any] = {}
        if width > _WIDEST_HEAD:  # what the library chooses by itself is too large for L1
            grid = open_board(self._layout.request.board).grid
            sizes = {"q_chunk_size": 0, "k_chunk_size": 64}
            options = {"compute_with_storage_grid_size": {"tuple": [grid.columns, grid.rows]}, **sizes}
            chunks["program_config"] = {"new": "ttnn.SDPAProgramConfig", "kwargs": options}
        given = [turned, f"{module}.k_cache", f"{module}.v_cache"]
        yield self._call_one(name, given, context, module, (turned,), cur_pos=positions, **chunks)
        yield self._call_one("transpose", [context, 1, 2], back, module, frees=(context,))
        return back

    def _feed_forward(self, normed: str, module: str, scope: Scope) -> _Calls:
        if scope.names["experts"]:
            return (yield from self._experts(normed, module, scope))
        sizes = self._layout.dimensions
        gate, up, product, made = self._name(), self._name(), self._name(), self._name()
        bias = {part: self._bias(f"{module}.{part}_proj", sizes.mlp_bias) for part in ("gate", "up", "down")}
        if sizes.gated:
            yield self._linear(normed, f"{module}.gate_proj", gate, activation=sizes.activation, **bias["gate"])
            yield self._linear(normed, f"{module}.up_proj", up, (normed,), **bias["up"])
            yield self._call_one("multiply", [gate, up], product, module, frees=(gate, up))
        else:
            yield self._linear(
                normed, f"{module}.up_proj", product, (normed,), activation=sizes.activation, **bias["up"]
            )
        yield self._linear(product, f"{module}.down_proj", made, (product,), **bias["down"])
        return (yield from self._reduce(made, module))

    def _bias(self, module: str, is_there: bool) -> dict[str, Any]:
        return {"bias": {"tensor": f"{module}.bias"}} if is_there else {}

    def _experts(self, normed: str, module: str, scope: Scope) -> _Calls:
        """The router, then one expert as all of them: each sees every token, and gives way to the next."""
        routed = self._name()
        yield self._linear(normed, f"{module}.router", routed)
        rows, hidden = self._rows, scope.number("mlp_columns")
        gate, up, product, made = (self._name() for _ in range(4))
        expert = f"{module}.experts"
        yield ModelCall("expert gate", (self._alloc(gate, [1, 1, rows, hidden]),), (), expert)
        yield ModelCall("expert up", (self._alloc(up, [1, 1, rows, hidden]),), (), expert)
        yield self._call_one("multiply", [gate, up], product, expert, frees=(gate, up))
        steps = (self._alloc(made, [1, 1, rows, scope.names["dim"]]),)
        yield ModelCall("expert down", steps, (product, routed, normed), expert)
        total = self._name()
        yield self._call_one("add", [made, made], total, expert, frees=(made,))
        return (yield from self._reduce(total, module))

    def _reduce(self, partial: str, module: str) -> _Calls:
        """Over the chips."""
        if self._chips == 1:
            return partial
        made = self._name()
        shape = [1, 1, self._rows, self._layout.dimensions.dim]
        yield self._collective("all_reduce", made, shape, module, (partial,))
        return made

    def _head(self, hidden: str) -> Iterator[ModelCall]:
        dim, last = self._layout.dimensions.dim, hidden
        if self._layout.phase == PREFILL and self._rows > _LAST_ROWS:
            last = self._name()
            begins, ends = [0, 0, self._rows - _LAST_ROWS, 0], [1, 1, self._rows, dim]
            yield self._call_one("slice", [hidden, begins, ends], last, "model", frees=(hidden,))
        normed, logits = self._name(), "logits"
        yield self._norm(last, "model.norm", normed, frees=(last,))
        yield self._linear(
            normed, "lm_head", logits, (normed,), **self._bias("lm_head", self._layout.dimensions.head_bias)
        )

    # --- steps --------------------------------------------------------------------------------------------------------

    def _name(self) -> str:
        self._number += 1
        return f"v{self._number}"

    def _linear(self, source: str, module: str, made: str, frees: Sequence[str] = (), **named: Any) -> ModelCall:
        options = {**named, "dtype": {"dtype": self._dtype}}
        return self._call_one("linear", [source, f"{module}.weight"], made, module, frees, **options)

    def _call_one(
        self,
        name: str,
        given: Sequence[Any],
        made: str | list[str],
        module: str,
        frees: Sequence[str] = (),
        **options: Any,
    ) -> ModelCall:
        return ModelCall(f"ttnn.{name}", (call_step(name, given, made, **options),), tuple(frees), module)

    def _collective(self, name: str, made: str, shape: list[int], module: str, frees: Sequence[str]) -> ModelCall:
        return ModelCall(f"ttnn.{name}", (self._alloc(made, shape),), tuple(frees), module)

    def _alloc(self, name: str, shape: list[int]) -> Step:
        return alloc_step(name, shape, self._dtype)


def _list_assumptions(layout: RecipeLayout) -> Iterator[str]:
    if layout.chips > 1:
        yield ASSUMED_CHIPS
    if layout.dimensions.head_dim % _WHOLE_HEAD:
        yield ASSUMED_HEADS
    if layout.phase == DECODE:
        yield ASSUMED_CACHE_WRITE
    elif layout.scope.names["chunk"] and layout.scope.number("tokens") < layout.prompt:
        yield ASSUMED_CHUNKS
