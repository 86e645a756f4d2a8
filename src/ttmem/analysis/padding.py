# SPDX-License-Identifier: Apache-2.0
"""Padding at the DRAM peak: shapes rounded up to tiles."""

from dataclasses import dataclass

from ttmem.analysis.consumers import LiveSet, alive_at_peak
from ttmem.analysis.lifetimes import TensorLife
from ttmem.profile.model import Profile


@dataclass(frozen=True, slots=True)
class Padding:
    """Over all DRAM tensors alive at the DRAM peak, in bytes of the whole chip.

    None where no state shows DRAM, or nothing tells what the tensors in it are: unknown is not nothing.
    """

    logical_bytes: int | None
    padded_bytes: int | None
    overhead_percent: float | None
    top: tuple[TensorLife, ...]
    """The tensors with any padding, most wasted bytes first."""

    @property
    def wasted_bytes(self) -> int | None:
        if self.padded_bytes is None or self.logical_bytes is None:
            return None
        return self.padded_bytes - self.logical_bytes


def padding_at_peak(profile: Profile, live: LiveSet | None = None) -> Padding:
    """Padding of the live set at the DRAM peak (``live`` saves the replay when the caller has it)."""
    live = live or alive_at_peak(profile)
    tensors = live.tensors if live else ()
    if live is None or (live.total_bytes_per_bank and not any(life.type.layout for life in tensors)):
        return Padding(None, None, None, ())
    logical = sum(life.type.logical_bytes for life in tensors)
    padded = logical + sum(life.type.padding_bytes for life in tensors)  # a torn type may say less than its shape needs
    wasteful = sorted(
        (life for life in tensors if life.type.padding_bytes),
        key=lambda life: (-life.type.padding_bytes, life.first_index),
    )
    return Padding(logical, padded, round(100 * (padded - logical) / logical, 4) if logical else 0.0, tuple(wasteful))
