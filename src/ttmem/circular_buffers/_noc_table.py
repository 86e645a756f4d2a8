# SPDX-License-Identifier: Apache-2.0
"""Measured NoC latencies: cycles for n transfers and one barrier between a core and interleaved DRAM.

Figures from tt-metal (Apache-2.0), ``tt_metal/impl/experimental/noc_estimator/latencies/noc_latencies.yaml`` at
``e4f9f0bb`` (2026-08-22), the entries without ``stateful``: "one" is patterns 2 (read) and 3 (write), one core alone;
"all" is patterns 5 (read) and 4 (write), every core of the grid at once. Columns that only repeat the last measured
value (more than 8 KiB per transfer, 256 transfers) are left out.
"""

from __future__ import annotations

TRANSFER_BYTES = (512, 1024, 2048, 4096, 8192)
TRANSFERS = (1, 4, 16, 64)

Rows = tuple[tuple[int, ...], ...]

LATENCY_CYCLES: dict[tuple[str, str, str], Rows] = {
    ("wormhole", "read", "one"): (
        (414, 430, 479, 558, 878),
        (515, 539, 725, 1019, 1539),
        (896, 983, 1465, 2519, 4623),
        (2647, 2647, 4665, 8879, 17383),
    ),
    ("wormhole", "write", "one"): (
        (451, 467, 511, 595, 763),
        (561, 639, 726, 1025, 1677),
        (1059, 1016, 1573, 2727, 5150),
        (2912, 2928, 5005, 9562, 19171),
    ),
    ("wormhole", "read", "all"): (
        (1182, 1352, 2077, 3813, 7589),
        (2290, 4037, 7929, 15772, 33742),
        (7541, 14125, 29234, 58884, 119369),
        (28611, 57095, 115235, 232598, 473688),
    ),
    ("wormhole", "write", "all"): (
        (1198, 1194, 1440, 2448, 3648),
        (1451, 1957, 3829, 8022, 15579),
        (3508, 6574, 13444, 26841, 62355),
        (12527, 25025, 51568, 110648, 231005),
    ),
    ("blackhole", "read", "one"): (
        (504, 522, 539, 576, 664),
        (589, 605, 649, 822, 1078),
        (912, 929, 1068, 1593, 2640),
        (2209, 2218, 2669, 4745, 8953),
    ),
    ("blackhole", "write", "one"): (
        (390, 396, 420, 453, 522),
        (484, 493, 521, 661, 938),
        (855, 863, 934, 1455, 2537),
        (2343, 2352, 2575, 4663, 8973),
    ),
    ("blackhole", "read", "all"): (
        (1798, 1832, 2085, 3078, 5515),
        (2029, 3182, 5490, 10773, 21124),
        (5945, 10567, 19896, 41229, 81943),
        (21639, 40277, 78064, 157528, 322085),
    ),
    ("blackhole", "write", "all"): (
        (1694, 1659, 1686, 2599, 5044),
        (1706, 2452, 4471, 8775, 17537),
        (4355, 8291, 16201, 32692, 67974),
        (16700, 31755, 62330, 130573, 274740),
    ),
}
"""(architecture, direction, who transfers) -> a row per entry of TRANSFERS, a column per entry of TRANSFER_BYTES."""
