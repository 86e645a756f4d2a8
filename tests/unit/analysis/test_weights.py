# SPDX-License-Identifier: Apache-2.0
"""A weight is counted once per (name, shape, dtype) over all graphs."""

from __future__ import annotations

from support.build_profile import ProfileBuilder
from ttmem.analysis.weights import Weight, weights


def test_each_weight_once_over_all_graphs() -> None:
    # GIVEN prefill and decode graphs that share a weight, a constant, inputs and a cache
    build = ProfileBuilder()
    build.argument("layers.0.weight", 64, 64, graph="prefill", on_device=False)
    build.argument("tokens", 1, 32, kind="input", dtype="int32", graph="prefill")
    build.argument("rope", 32, 32, kind="constant", graph="prefill", on_device=True)
    build.argument("cache", 1, 32, kind="input", graph="decode", kv_cache=True)
    build.argument("layers.0.weight", 64, 64, graph="decode", on_device=True)
    build.argument("layers.0.weight", 64, 32, graph="decode")
    build.argument("?", 7, 7, kind="unknown", graph="decode")
    # WHEN
    found = weights(build.build())
    # THEN
    assert found.entries == (
        Weight("layers.0.weight", (64, 64), "bfloat16", 8192, False, "device", ("prefill", "decode")),
        Weight("layers.0.weight", (64, 32), "bfloat16", 4096, False, "unknown", ("decode",)),
        Weight("rope", (32, 32), "bfloat16", 2048, True, "device", ("prefill",)),
    )
    assert (found.count, found.bytes, found.constants) == (3, 14336, 1)
    assert (found.device_bytes, found.host_only_bytes, found.unknown_bytes) == (10240, 0, 4096)


def test_a_weight_that_feeds_const_eval_only_stays_on_the_host() -> None:
    build = ProfileBuilder()
    build.argument("w", 32, 32, graph="a", on_device=False)
    build.argument("w", 32, 32, graph="b", on_device=False)
    build.argument("v", 32, 32, graph="a", on_device=False)
    build.argument("v", 32, 32, graph="b", on_device=None)
    found = weights(build.build())
    assert {weight.name: weight.where for weight in found.entries} == {"w": "host", "v": "unknown"}


def test_no_registry_no_weights() -> None:
    assert (weights(ProfileBuilder().build()).count, weights(ProfileBuilder().build()).bytes) == (0, None)
