# SPDX-License-Identifier: Apache-2.0
"""How long a kernel's transfers take: the measured table, interpolated, and an estimate between one core and all."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ttmem import _toml
from ttmem._errors import BadInputError
from ttmem.hardware import Architecture

READ, WRITE = "read", "write"
_TABLE = _toml.packaged("ttmem.circular_buffers", "noc_latencies.toml")
TRANSFER_BYTES: Sequence[int] = _TABLE["transfer_bytes"]
TRANSFERS: Sequence[int] = _TABLE["transfers"]
"""The points at which latencies were measured."""


def transfer_cycles(
    architecture: Architecture,
    direction: str,
    tile_bytes: int,
    tiles: int,
    *,
    cores: int = 1,
    grid_cores: int = 64,
) -> float:
    """Cycles for ``tiles`` transfers of one tile each and the barrier after them, interleaved DRAM.

    Measured at the table's points, linear between them and beyond the last number of transfers (where bandwidth
    decides and the table is straight). Between one core and all cores nothing was measured: a straight line, which is
    an estimate. Larger transfers than the table has are refused, because its last columns repeat themselves.
    """
    if not TRANSFER_BYTES[0] <= tile_bytes <= TRANSFER_BYTES[-1]:
        raise BadInputError(
            f"no latency was measured for transfers of {tile_bytes} B",
            hint=f"the published table covers {TRANSFER_BYTES[0]} to {TRANSFER_BYTES[-1]} B",
        )
    alone = _latency(architecture, direction, "one", tile_bytes, tiles)
    if cores <= 1 or grid_cores <= 1:
        return alone
    crowded = _latency(architecture, direction, "all", tile_bytes, tiles)
    return alone + (crowded - alone) * (min(cores, grid_cores) - 1) / (grid_cores - 1)


def is_measured(architecture: Architecture) -> bool:
    """Whether the table knows this architecture."""
    return architecture.name in _TABLE["cycles"]


def _latency(architecture: Architecture, direction: str, who: str, tile_bytes: int, tiles: int) -> float:
    rows = _TABLE["cycles"][architecture.name][direction][who]
    return _line(TRANSFERS, [_line(TRANSFER_BYTES, row, tile_bytes) for row in rows], tiles)


def _line(places: Sequence[int], values: Sequence[float], at: float) -> float:
    right = min(max(bisect_right(places, at), 1), len(places) - 1)
    left = right - 1
    share = (at - places[left]) / (places[right] - places[left])
    return values[left] + (values[right] - values[left]) * share
