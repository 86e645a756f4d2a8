# SPDX-License-Identifier: Apache-2.0
"""MLIR locations of every printed shape, and the short name a reader should show for each.

The short name ("display") is the outermost name: of `"a"("b")` it is `a`, of `callsite(X at Y)` that of X, of
`fused[..]` that of the first member, of a file location `file:line:column`, and of `unknown` the empty string.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

_SUFFIXES = ("_in_0_layout", "_in_1_layout", "_reshapeInput", "_reshapeOutput", "_workaround", "_decomp")
_FILE = "models/decoder/modeling.py"


@dataclass(frozen=True, slots=True)
class Loc:
    display: str
    text: str
    """What stands between `loc(` and `)`."""
    pattern: str = ""
    """`text` with {0} and {1} for the children, as dumps print it when each child has an alias of its own."""
    children: tuple[str, ...] = ()


UNKNOWN = Loc("", "unknown")


def named(name: str) -> Loc:
    return Loc(name, f'"{name}"')


class LocMaker:
    """Deals out locations with a growing number, so that no two ops share one unless asked to."""

    def __init__(self, rng: Random, style: str, *, always_unique: bool) -> None:
        self._rng = rng
        self._jax = style == "jax"
        self._always_unique = always_unique
        self.count = 0

    def plain(self, stem: str) -> Loc:
        self.count += 1 + int(self._rng.random() * 4)
        return named(f"{stem}.{self.count}")

    def make(self, stem: str) -> Loc:
        draw = self._rng.random()
        self.count += 1 + int(draw * 7)
        return self._jax_loc(stem, draw) if self._jax else self._torch_loc(stem, draw)

    def _torch_loc(self, stem: str, draw: float) -> Loc:
        number = self.count
        if draw < 0.74:
            return named(f"{stem}.{number}")
        if draw < 0.84:
            suffix = _SUFFIXES[number % len(_SUFFIXES)]
            outer, inner = f"{stem}.{number}{suffix}", f'"{stem}.{number}"'
            return Loc(outer, f'"{outer}"({inner})', f'"{outer}"({{0}})', (inner,))
        if draw < 0.90:
            where = f"{_FILE}:{number + 3}|forward|{number + 8}"
            return named(f"{number}|Decoder[model]|Block[layers.{number % 9}]|{where}|aten__{stem}")
        if draw < 0.93:
            return Loc(f"{_FILE}:{number}:{number % 70 + 1}", f'"{_FILE}":{number}:{number % 70 + 1}')
        if draw < 0.96:
            return Loc(f"{stem}.{number}", f'fused["{stem}.{number}", "add.{number}"]')
        if draw < 0.98 or self._always_unique:
            return named(f"concat<a, b> -> (c: {{{stem}}}).{number}")
        return UNKNOWN

    def _jax_loc(self, stem: str, draw: float) -> Loc:
        number = self.count
        path = f"jit(__call__)/jit(main)/DecoderModule/layers/{number % 9}/attention/jit(_take)/{stem}.{number}"
        if draw < 0.6:
            callee, caller = f'"{path}"', f'"{_FILE}":{number}:{number % 70 + 1}'
            return Loc(path, f"callsite({callee} at {caller})", "callsite({0} at {1})", (callee, caller))
        if draw < 0.75:
            return Loc(path, f'fused<"{stem}">["{path}", "add.{number}"]')
        if draw < 0.95 or self._always_unique:
            return named(path)
        return UNKNOWN
