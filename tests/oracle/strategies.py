# SPDX-License-Identifier: Apache-2.0
"""Random tensors, allocation scripts and programs: mostly legal, often tight, sometimes wrong."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

DTYPES = ("bfloat16", "float32", "bfloat8_b", "bfloat4_b", "uint8", "uint16", "uint32", "int32", "int8", "fp8_e4m3")
TILES = ([32, 32], [16, 32], [32, 16], [16, 16], [8, 32], [4, 32], [2, 32], [1, 32], [8, 16], [1, 16])

Step = dict[str, Any]

dimensions = st.one_of(
    st.integers(1, 8),
    st.integers(1, 200),
    st.sampled_from([0, 1, 31, 32, 33, 48, 64, 96, 100, 128, 256, 320, 512, 1024, 1500, 2048, 4096, 8192]),
)


@st.composite
def shapes(draw: st.DrawFn, max_elements: int = 1 << 34) -> list[int]:
    shape = draw(st.lists(dimensions, min_size=0, max_size=6))
    elements = 1
    for i, size in enumerate(shape):
        if elements * max(size, 1) > max_elements:
            shape[i] = 1
        elements *= max(shape[i], 1)
    return shape


@st.composite
def core_ranges(draw: st.DrawFn, columns: int, rows: int) -> list[int]:
    x0, y0 = draw(st.integers(0, columns - 1)), draw(st.integers(0, rows - 1))
    return [x0, y0, draw(st.integers(x0, columns - 1)), draw(st.integers(y0, rows - 1))]


@st.composite
def grids(draw: st.DrawFn, columns: int, rows: int) -> list[list[int]]:
    """One rectangle, mostly; now and then disjoint ones, or one that sticks out."""
    kind = draw(st.integers(0, 9))
    if kind < 6:
        return [draw(core_ranges(columns, rows))]
    if kind == 6:
        return [[0, 0, draw(st.integers(0, columns + 1)), draw(st.integers(0, rows + 1))]]
    ranges: list[list[int]] = []
    for _ in range(draw(st.integers(2, 3))):
        new = draw(core_ranges(columns, rows))
        if all(new[2] < r[0] or r[2] < new[0] or new[3] < r[1] or r[3] < new[1] for r in ranges):
            ranges.append(new)
    return ranges


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _cores(ranges: list[list[int]]) -> int:
    return sum((r[2] - r[0] + 1) * (r[3] - r[1] + 1) for r in ranges)


@st.composite
def shards(draw: st.DrawFn, spec: Step, columns: int, rows: int) -> Step:
    """A shard that fits the spec more often than not."""
    kind = draw(st.sampled_from(["height", "width", "block", "nd"]))
    if spec.get("memory") in ("DRAM", "TRACE") and draw(st.integers(0, 4)):
        columns, rows = draw(st.sampled_from([(12, 1), (8, 1), (7, 1)])), 1
        columns = columns[0]  # type: ignore[assignment]
    ranges = draw(grids(columns, rows))
    orientation = draw(st.sampled_from(["row", "row", "col"]))
    tile_h, tile_w = spec.get("tile", [32, 32]) if spec["layout"] == "tile" else (1, 1)
    shape = spec["shape"]
    height = 1
    for size in shape[:-2]:
        height *= size
    height *= _up(shape[-2] if len(shape) > 1 else 1, tile_h)
    width = _up(shape[-1] if shape else 1, tile_w)
    if kind == "nd":
        rank = draw(st.integers(1, max(len(shape), 1) + (draw(st.integers(0, 9)) == 0)))
        tail = (shape or [1])[-rank:]
        part = [
            draw(st.sampled_from([1, size or 1, max(size // 2, 1), draw(st.integers(1, max(size, 1)))]))
            for size in tail
        ]
        part = [1] * (rank - len(part)) + part
        if draw(st.integers(0, 14)):
            part[-1] = _up(part[-1], tile_w)
            if rank > 1:
                part[-2] = _up(part[-2], tile_h)
        distribution = draw(st.sampled_from(["round_robin_1d", "round_robin_1d", "grid_2d"]))
        if distribution == "grid_2d":
            part = part[-2:]
        return {"kind": "nd", "shape": part, "ranges": ranges, "orientation": orientation, "distribution": distribution}
    cores = _cores(ranges)
    across, down = ranges[0][2] - ranges[0][0] + 1, ranges[0][3] - ranges[0][1] + 1
    if orientation == "col":
        across, down = down, across
    loose = draw(st.integers(0, 3))
    if kind == "height":
        part = [_up(max(-(-height // cores), 1) + loose, tile_h), max(width, 1)]
    elif kind == "width":
        part = [max(height, 1), _up(max(-(-width // cores), 1) + loose, tile_w)]
    else:
        part = [_up(max(-(-height // down), 1) + loose, tile_h), _up(max(-(-width // across), 1) + loose, tile_w)]
    spoil = draw(st.integers(0, 11))
    if spoil == 0:
        part[draw(st.integers(0, 1))] += draw(st.integers(1, 40))
    elif spoil == 1:
        which = draw(st.integers(0, 1))
        part[which] = max(part[which] // 2, 1)
    return {"kind": kind, "shape": part, "ranges": ranges, "orientation": orientation}


@st.composite
def specs(
    draw: st.DrawFn, columns: int, rows: int, *, max_elements: int = 1 << 34, memories: tuple[str, ...] = ()
) -> Step:
    spec: Step = {
        "shape": draw(shapes(max_elements)),
        "dtype": draw(st.sampled_from(DTYPES)),
        "layout": draw(st.sampled_from(["tile", "tile", "row_major"])),
        "memory": draw(st.sampled_from(memories or ("DRAM", "DRAM", "L1", "L1", "L1", "L1_SMALL", "TRACE"))),
    }
    if spec["layout"] == "tile" and draw(st.integers(0, 7)) == 0:
        spec["tile"] = draw(st.sampled_from(TILES))
    if draw(st.integers(0, 3)) or spec["memory"] == "L1_SMALL":
        spec["shard"] = draw(shards(spec, columns, rows))
    return spec


def kills_the_library(spec: Step) -> bool:
    """An ND round-robin shard of a tensor whose last dimension is 0: SIGFPE, so it is never asked."""
    shard = spec.get("shard")
    return bool(
        shard and shard["kind"] == "nd" and shard["distribution"] == "round_robin_1d" and spec["shape"][-1:] == [0]
    )


_BUFFER_SHAPES = st.one_of(
    st.tuples(st.just("tile"), st.integers(1, 60), st.integers(1, 60)),
    st.tuples(st.just("row_major"), st.integers(1, 600), st.integers(1, 3000)),
)


@st.composite
def scripts(draw: st.DrawFn, columns: int, rows: int) -> list[Step]:
    """Allocations and frees in all four memories, with a look at the memories now and then.

    Large and small tensors mix, so pools fragment and run full; a free takes any live tensor.
    """
    steps: list[Step] = []
    live: list[str] = []
    actions = draw(
        st.lists(
            st.tuples(
                st.integers(0, 9),
                st.integers(0, 1000),
                _BUFFER_SHAPES,
                st.sampled_from([1, 1, 4, 30, 300, 1500]),
            ),
            min_size=5,
            max_size=60,
        )
    )
    for number, (action, pick, (layout, height, width), factor) in enumerate(actions):
        if action < 3 and live:
            steps.append({"free": live.pop(pick % len(live))})
        elif action == 3:
            memory = ("DRAM", "L1", "L1_SMALL", "TRACE")[pick % 4]
            steps.append({"view": memory, "blocks": pick % 3 == 0})
        else:
            name = f"t{number}"
            memory = ("L1", "L1", "DRAM", "L1_SMALL", "TRACE")[pick % 5]
            step: Step = {
                "alloc": name,
                "dtype": ("bfloat16", "float32", "uint8")[pick % 3],
                "layout": layout,
                "memory": memory,
            }
            tile = 32 if layout == "tile" else 1
            if memory == "L1_SMALL" or (memory == "L1" and pick % 2):
                shard_height = height * tile if memory == "L1" else tile
                shard_width = min(width, 12) * tile if memory == "L1_SMALL" or layout == "tile" else width
                cores = 1 + pick % columns
                step["shape"] = [shard_height * cores, shard_width]
                step["shard"] = {
                    "kind": "height",
                    "shape": [shard_height, shard_width],
                    "ranges": [[0, 0, cores - 1, 0]],
                }
            elif memory == "DRAM":
                step["shape"] = [factor, height * 8, 128, width * tile]
            else:
                step["shape"] = [1 + factor % 50, height, width * tile]
            steps.append(step)
            live.append(name)
    steps += [{"view": memory, "blocks": True} for memory in ("DRAM", "L1", "L1_SMALL", "TRACE")]
    return steps


@st.composite
def programs(draw: st.DrawFn, columns: int, rows: int, max_buffers: int) -> list[Step]:
    """A program of 1-12 circular buffers on overlapping core ranges, under some pressure of L1 tensors."""
    ranges = draw(st.lists(core_ranges(columns, rows), min_size=1, max_size=4))
    buffers = []
    raw = draw(
        st.lists(
            st.tuples(
                st.integers(0, 3),
                st.integers(0, 5),
                st.sampled_from([16, 32, 48, 100, 1024, 1088, 2048, 4096]),
                st.one_of(st.integers(1, 8), st.integers(1, 120)),
                st.integers(0, 60),
            ),
            min_size=1,
            max_size=12,
        )
    )
    for number, (first, second, page, pages, odd) in enumerate(raw):
        own = [ranges[first % len(ranges)]]
        other = ranges[second % len(ranges)]
        mine = own[0]
        if mine[2] < other[0] or other[2] < mine[0] or mine[3] < other[1] or other[3] < mine[1]:
            own.append(other)
        total = page * pages
        index = number
        if odd == 0:
            total += 1
        elif odd == 1:
            index = max_buffers + number
        elif odd == 2 and number:
            index = number - 1
        buffers.append({"bytes": total, "page_bytes": page, "index": index, "ranges": own})
    return buffers
