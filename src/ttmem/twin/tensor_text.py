# SPDX-License-Identifier: Apache-2.0
"""Shapes and shards as people type them: `1x96x2176x1920`, `height:64x512@8x8:col`."""

import re

from ttmem.base.errors import BadInputError
from ttmem.twin.tensor_spec import NdShard, Shard, grid_of

_SHARD = re.compile(
    r"(?P<kind>height|width|block|nd):(?P<shape>[0-9x]+)@(?P<grid>[0-9]+x[0-9]+)(?P<flags>(?::[a-z0-9_]+)*)"
)
_FLAGS = {"row", "col", "round_robin_1d", "grid_2d"}


def parse_shape(text: str) -> tuple[int, ...]:
    """`1x96x2176x1920`; brackets and commas are fine too, and `scalar` has no dimensions."""
    cleaned = text.strip().strip("[]()").strip()
    if cleaned in ("", "scalar"):
        return ()
    try:
        return tuple(int(part) for part in re.split(r"\s*[x,]\s*|\s+", cleaned.removesuffix(",")))
    except ValueError:
        raise BadInputError(f"{text[:200]!r} is not a shape", hint="write it as 1x96x2176x1920") from None


def parse_shard(text: str) -> Shard | NdShard:
    """`height:64x512@8x8`: kind, shard shape, grid of columns x rows; then `:col` and, for nd, the distribution."""
    match = _SHARD.fullmatch(text.strip().lower())
    if not match:
        raise BadInputError(
            f"{text!r} is not a shard",
            hint="write it as height:64x512@8x8[:col]; kinds: height, width, block, nd (nd: [:grid_2d])",
        )
    flags = [flag for flag in match["flags"].split(":") if flag]
    for flag in flags:
        if flag not in _FLAGS:
            raise BadInputError(f"unknown flag {flag!r} in shard {text!r}", hint="known: row, col, grid_2d")
    shape = parse_shape(match["shape"])
    columns, rows = parse_shape(match["grid"])
    if not (columns and rows):
        raise BadInputError(f"the grid of shard {text!r} has no cores")
    ranges, by_column = grid_of(columns, rows), "col" in flags
    if match["kind"] == "nd":
        return NdShard(shape, ranges, by_column, "grid_2d" if "grid_2d" in flags else "round_robin_1d")
    if len(shape) != 2:
        raise BadInputError(f"a {match['kind']} shard has two sizes, {text!r} has {len(shape)}")
    return Shard(match["kind"], shape[0], shape[1], ranges, by_column)
