# SPDX-License-Identifier: Apache-2.0
"""The layers of the model: convolution stem, transformer block, head."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Protocol

from loggen.locations import LocMaker
from loggen.options import Options
from loggen.program import Program, ProgramBuilder, Value
from loggen.tensors import TypeFactory
from loggen.weights import WeightSpec, weight

HEAD_DIM = 64
MATMUL = "transpose_a = false, transpose_b = false"
NORM = "epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 0>"


@dataclass(frozen=True, slots=True)
class Dims:
    batch: int
    sequence: int
    width: int
    vocabulary: int
    cache_length: int
    chips: int

    @property
    def heads(self) -> int:
        return self.width // HEAD_DIM

    @property
    def local_heads(self) -> int:
        return self.heads // self.chips

    @property
    def hidden(self) -> int:
        return 4 * self.width

    @property
    def tokens_shape(self) -> tuple[int, int, int]:
        return (self.batch, self.sequence, self.width)


def draw_dims(seed: int, chips: int) -> Dims:
    rng = Random(f"dims {seed}")
    return Dims(
        batch=rng.choice((1, 2)),
        sequence=rng.choice((77, 128, 197)),
        width=rng.choice((512, 768, 1024)),
        vocabulary=rng.choice((1000, 4096, 5000)),
        cache_length=rng.choice((256, 1024)),
        chips=chips,
    )


class WeightSource(Protocol):
    """Where a layer gets its weights: load_cached in a plain graph, function arguments inside a trace."""

    def load(self, b: ProgramBuilder, *specs: WeightSpec) -> tuple[Value, ...]: ...

    def done(self, b: ProgramBuilder, *values: Value) -> None: ...

    def scalar(self, b: ProgramBuilder) -> Value: ...

    def cache(self, layer: int, which: str) -> Value: ...

    def position(self) -> Value: ...


@dataclass(frozen=True, slots=True)
class Layers:
    """Appends layers to a builder. Stateless, so a long program can be built again and again, piece by piece."""

    options: Options
    types: TypeFactory
    dims: Dims
    weights: WeightSource
    locs: LocMaker
    decode: bool
    gate: Program | None
    use_cache: bool

    def stem(self, b: ProgramBuilder, image: Value, device: Value) -> None:
        """Image to pooled features: row-major upload, height-sharded L1 convolutions, one that eats its input."""
        t, batch = self.types, self.dims.batch
        uploaded = t.dram((batch, 3, 224, 224), tiled=False)
        on_device = b.one(
            "ttnn.to_device",
            (image, device),
            uploaded,
            f"memory_config = {uploaded.memory_config}",
            loc=self.locs.make("to_device"),
        )
        channels_last = b.one(
            "ttnn.permute",
            (on_device,),
            t.dram((batch, 224, 224, 3)),
            "permutation = array<i64: 0, 2, 3, 1>",
            loc=self.locs.make("transpose"),
        )
        b.deallocate(on_device)
        features = t.sharded((1, 1, batch * 12544, 64), "height_sharded")
        (w,) = self.weights.load(b, weight("model", "stem", "conv", "weight", shape=(64, 3, 7, 7)))
        x = b.one(
            "ttnn.conv2d",
            (channels_last, w, device),
            features,
            _conv_attributes(batch, 3, 224, 7, 2, 3, eats_input=False),
            loc=self.locs.make("convolution"),
        )
        b.deallocate(channels_last)
        self.weights.done(b, w)
        y = b.one("ttnn.relu", (x,), features, loc=self.locs.make("maximum"))
        b.deallocate(x)
        (w,) = self.weights.load(b, weight("model", "stem", "conv2", "weight", shape=(64, 64, 3, 3)))
        (z,) = b.op(
            "ttnn.conv2d",
            (y, w, device),
            (features,),
            _conv_attributes(batch, 64, 112, 3, 1, 1, eats_input=True),
            loc=self.locs.make("convolution"),
            frees=(y,),
        )
        self.weights.done(b, w)
        pooled = b.one(
            "ttnn.max_pool2d",
            (z,),
            t.sharded((1, 1, batch * 3136, 64), "height_sharded"),
            f"batch_size = {batch} : si32, ceil_mode = false, channels = 64 : si32, dilation = array<i32: 1, 1>, "
            "input_height = 112 : si32, input_width = 112 : si32, kernel_size = array<i32: 3, 3>, "
            "padding = array<i32: 1, 1>, stride = array<i32: 2, 2>",
            loc=self.locs.make("reduce-window"),
        )
        b.deallocate(z)
        in_dram = t.dram((1, 1, batch * 3136, 64))
        moved = b.one(
            "ttnn.to_memory_config",
            (pooled,),
            in_dram,
            f"memory_config = {in_dram.memory_config}",
            loc=self.locs.make("copy"),
        )
        b.deallocate(pooled)
        mean = b.one(
            "ttnn.mean",
            (moved,),
            t.dram((1, 1, 1, 64)),
            "dim_arg = [2 : i32], keep_dim = true",
            loc=self.locs.make("reduce"),
        )
        b.deallocate(moved, mean)

    def block(self, b: ProgramBuilder, number: int, weight_layer: int, x: Value, *, last: bool) -> Value:
        x = self._attention(b, weight_layer, x, last=last)
        return self._mlp(b, number, weight_layer, x)

    def _attention(self, b: ProgramBuilder, layer: int, x: Value, *, last: bool) -> Value:
        t, d, locs = self.types, self.dims, self.locs
        tokens = t.dram(d.tokens_shape)
        path = ("model", "layers", str(layer))
        (w,) = self.weights.load(b, weight(*path, "input_layernorm", "weight", shape=(d.width,)))
        normed = b.one("ttnn.rms_norm", (x, w), tokens, NORM, loc=locs.make("custom-call"))
        self.weights.done(b, w)
        local_width = d.width // d.chips
        (w,) = self.weights.load(b, weight(*path, "attn", "qkv", "weight", shape=(d.width, 3 * d.width), shard_axis=1))
        qkv = b.one(
            "ttnn.matmul", (normed, w), t.dram((d.batch, d.sequence, 3 * local_width)), MATMUL, loc=locs.make("dot")
        )
        b.deallocate(normed)
        self.weights.done(b, w)
        q, k, v = self._split_heads(b, qkv)
        b.deallocate(qkv)
        keys, values, keys_length = k, v, d.sequence
        if self.use_cache:
            keys, values, keys_length = self._update_cache(b, layer, k, v)
        scores_type = t.dram((d.batch, d.local_heads, d.sequence, keys_length), "f32")
        scores = b.one("ttnn.matmul", (q, keys), scores_type, MATMUL, loc=locs.make("dot"))
        b.deallocate(q, k)
        if self.options.has("scalar"):
            scale = self.weights.scalar(b)
            raw = scores
            scores = b.one("ttnn.multiply", (raw, scale), scores_type, loc=locs.make("multiply"))
            b.deallocate(raw)
            self.weights.done(b, scale)
        probabilities_type, mark = scores_type, ""
        if last and not self.decode and self.options.regress_batch is not None:
            shape = (self.options.regress_batch, *scores_type.shape[1:])
            probabilities_type, mark = t.dram(shape, "f32"), "regressed"
        (probabilities,) = b.op(
            "ttnn.softmax",
            (scores,),
            (probabilities_type,),
            "dimension = 3 : si32, numericStable = true",
            loc=locs.plain("softmax") if last else locs.make("softmax"),
            mark=mark,
        )
        b.deallocate(scores)
        head_type = t.dram((d.batch, d.local_heads, d.sequence, HEAD_DIM))
        context = b.one("ttnn.matmul", (probabilities, values), head_type, MATMUL, loc=locs.make("dot"))
        b.deallocate(probabilities, v)
        merged = b.one(
            "ttnn.concatenate_heads", (context,), t.dram((d.batch, d.sequence, local_width)), loc=locs.make("reshape")
        )
        b.deallocate(context)
        w, bias = self.weights.load(
            b,
            weight(*path, "attn", "proj", "weight", shape=(d.width, d.width), shard_axis=0),
            weight(*path, "attn", "proj", "bias", shape=(d.width,)),
        )
        projected = b.one("ttnn.linear", (merged, w, bias), tokens, MATMUL, loc=locs.make("dot"))
        b.deallocate(merged)
        self.weights.done(b, w, bias)
        projected = self._all_reduce(b, projected)
        return self._residual(b, x, projected)

    def _split_heads(self, b: ProgramBuilder, qkv: Value) -> tuple[Value, Value, Value]:
        t, d = self.types, self.dims
        head = t.dram((d.batch, d.local_heads, d.sequence, HEAD_DIM))
        turned = t.dram((d.batch, d.local_heads, HEAD_DIM, d.sequence))
        if self.options.has("multi-result"):
            q, k, v = b.op(
                "ttnn.split_query_key_value_and_split_heads",
                (qkv,),
                (head, turned, head),
                f"num_heads = {d.local_heads} : ui32, transpose_key = true",
                loc=self.locs.make("split"),
            )
            return q, k, v
        parts = [
            b.one(
                "ttnn.slice_static",
                (qkv,),
                type_,
                f"begins = [0 : i32, 0 : i32, {i * d.width} : i32], step = [1 : i32, 1 : i32, 1 : i32]",
                loc=self.locs.make("slice"),
            )
            for i, type_ in enumerate((head, turned, head))
        ]
        return parts[0], parts[1], parts[2]

    def _update_cache(self, b: ProgramBuilder, layer: int, k: Value, v: Value) -> tuple[Value, Value, int]:
        """In-place updates with no result; decode then reads the whole cache, prefill its own keys."""
        for which, new in (("key", k), ("value", v)):
            cache = self.weights.cache(layer, which)
            loc = self.locs.make("scatter")
            if self.decode:
                b.op(
                    "ttnn.paged_update_cache", (cache, new, self.weights.position()), (), "share_cache = false", loc=loc
                )
            else:
                b.op("ttnn.fill_cache", (cache, new), (), "batch_offset = 0 : i32", loc=loc)
        if not self.decode:
            return k, v, self.dims.sequence
        return self.weights.cache(layer, "key"), self.weights.cache(layer, "value"), self.dims.cache_length

    def _all_reduce(self, b: ProgramBuilder, partial: Value) -> Value:
        if self.dims.chips == 1:
            return partial
        d = self.dims
        scattered = b.one(
            "ttnn.reduce_scatter",
            (partial,),
            self.types.dram((d.batch, d.sequence, d.width // d.chips)),
            "cluster_axis = 1 : ui32, reduce_type = #ttcore.reduce_type<sum>, scatter_dim = 2 : si32",
            loc=self.locs.make("all-reduce"),
        )
        b.deallocate(partial)
        whole = b.one(
            "ttnn.all_gather",
            (scattered,),
            self.types.dram(d.tokens_shape),
            "all_gather_dim = 2 : si32, cluster_axis = 1 : ui32",
            loc=self.locs.make("all-reduce"),
        )
        b.deallocate(scattered)
        return whole

    def _residual(self, b: ProgramBuilder, x: Value, y: Value) -> Value:
        attributes = "dtype = #ttcore.supportedDataTypes<bf16>"
        total = b.one(
            "ttnn.add", (x, y), self.types.dram(self.dims.tokens_shape), attributes, loc=self.locs.make("add")
        )
        b.deallocate(x, y)
        return total

    def _mlp(self, b: ProgramBuilder, number: int, layer: int, x: Value) -> Value:
        t, d, locs = self.types, self.dims, self.locs
        tokens = t.dram(d.tokens_shape)
        local_hidden = (d.batch, d.sequence, d.hidden // d.chips)
        path = ("model", "layers", str(layer))
        (w,) = self.weights.load(b, weight(*path, "post_attention_layernorm", "weight", shape=(d.width,)))
        normed = b.one("ttnn.rms_norm", (x, w), tokens, NORM, loc=locs.make("custom-call"))
        self.weights.done(b, w)
        (w,) = self.weights.load(b, weight(*path, "mlp", "fc1", "weight", shape=(d.width, d.hidden), shard_axis=1))
        if number % 2 and self.options.has("sharded"):
            config = t.sharded(d.tokens_shape, "block_sharded")
            moved = b.one(
                "ttnn.to_memory_config",
                (normed,),
                config,
                f"memory_config = {config.memory_config}",
                loc=locs.make("copy"),
            )
            b.deallocate(normed)
            hidden_type = t.sharded(local_hidden, "width_sharded")
            hidden = b.one("ttnn.matmul", (moved, w), hidden_type, MATMUL, loc=locs.make("dot"))
            b.deallocate(moved)
            active = b.one("ttnn.gelu", (hidden,), hidden_type, loc=locs.make("gelu"))
        else:
            hidden = b.one("ttnn.matmul", (normed, w), t.dram(local_hidden), MATMUL, loc=locs.make("dot"))
            b.deallocate(normed)
            if self.gate is not None:
                (active,) = b.call(self.gate, (hidden,), (t.dram(local_hidden),), loc=locs.make("call"))
            else:
                active = b.one("ttnn.silu", (hidden,), t.dram(local_hidden), loc=locs.make("logistic"))
        b.deallocate(hidden)
        self.weights.done(b, w)
        if self.options.has("view") and active.type.pool == "DRAM":
            # Unsqueezing never moves a tile, so the result shares the buffer and the operand's free frees nothing.
            shape = (1, *local_hidden)
            dims = ", ".join(f"{n} : i32" for n in shape)
            viewed = b.view("ttnn.reshape", active, t.dram(shape), f"shape = [{dims}]", loc=locs.make("reshape"))
            b.deallocate(active)
            active = viewed
        (w,) = self.weights.load(b, weight(*path, "mlp", "fc2", "weight", shape=(d.hidden, d.width), shard_axis=0))
        out = b.one("ttnn.matmul", (active, w), tokens, MATMUL, loc=locs.make("dot"))
        b.deallocate(active)
        self.weights.done(b, w)
        return self._residual(b, x, self._all_reduce(b, out))

    def head(self, b: ProgramBuilder, x: Value) -> Value:
        """Final norm and logits; `x` stays with the caller."""
        t, d, locs = self.types, self.dims, self.locs
        (w,) = self.weights.load(b, weight("model", "norm", "weight", shape=(d.width,)))
        normed = b.one("ttnn.rms_norm", (x, w), t.dram(d.tokens_shape), NORM, loc=locs.make("custom-call"))
        self.weights.done(b, w)
        (w,) = self.weights.load(b, weight("model", "lm_head", "weight", shape=(d.width, d.vocabulary)))
        logits_type = t.dram((d.batch, d.sequence, d.vocabulary), "f32")
        logits = b.one("ttnn.matmul", (normed, w), logits_type, MATMUL, loc=locs.make("dot"))
        b.deallocate(normed)
        self.weights.done(b, w)
        return logits


def _conv_attributes(
    batch: int, channels: int, side: int, kernel: int, stride: int, padding: int, *, eats_input: bool
) -> str:
    config = f"weights_dtype = bf16, deallocate_activation = {'true' if eats_input else 'false'}"
    return (
        f"batch_size = {batch} : i32, "
        f"conv2d_config = #ttnn.conv2d_config<{config}, enable_kernel_stride_folding = false>, "
        "dilation = array<i32: 1, 1>, dtype = #ttcore.supportedDataTypes<bf16>, groups = 1 : i32, "
        f"in_channels = {channels} : i32, input_height = {side} : i32, input_width = {side} : i32, "
        f"kernel_size = array<i32: {kernel}, {kernel}>, out_channels = 64 : i32, "
        f"padding = array<i32: {', '.join([str(padding)] * 4)}>, stride = array<i32: {stride}, {stride}>"
    )
