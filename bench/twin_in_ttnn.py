# SPDX-License-Identifier: Apache-2.0
"""The same work in the real ttnn, timed inside its own process: run by `twin.py`, with ttnn's interpreter.

argv: file with the script of steps, file with the shapes; the environment names the board. One JSON line comes out.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

steps_file, shapes_file = sys.argv[1:]
answers = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
steps = json.loads(Path(steps_file).read_text())
shapes = json.loads(Path(shapes_file).read_text())

import ttnn  # noqa: E402

device = ttnn.open_device(device_id=0)
MEMORIES = {"DRAM": ttnn.DRAM_MEMORY_CONFIG, "L1": ttnn.L1_MEMORY_CONFIG}
LAYOUTS = {"tile": ttnn.TILE_LAYOUT, "row_major": ttnn.ROW_MAJOR_LAYOUT}


def replay() -> list[int]:
    """As a script in Python would: build the arguments, allocate, drop the reference."""
    live, addresses = {}, []
    for step in steps:
        if "free" in step:
            del live[step["free"]]
        else:
            tensor = ttnn.allocate_tensor_on_device(
                ttnn.Shape(step["shape"]),
                ttnn.bfloat16,
                LAYOUTS[step["layout"]],
                device,
                MEMORIES[step["memory"]],
            )
            live[step["alloc"]] = tensor
            addresses.append(tensor.buffer_address())
            del tensor  # a second name would keep a freed tensor alive until the next allocation
    return addresses


def sizes() -> list[int]:
    """Bytes per bank of each shape, the cheapest way there is: allocate it, read its pages, free it."""
    found = []
    banks = ttnn.get_memory_view(device, ttnn.BufferType.DRAM).num_banks
    for shape in shapes:
        tensor = ttnn.allocate_tensor_on_device(
            ttnn.Shape(shape), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG
        )
        found.append(-(-tensor.buffer_num_pages() // banks) * tensor.buffer_aligned_page_size())
        del tensor
    return found


def timed(work):
    best, result = float("inf"), None
    for _ in range(9):
        begin = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - begin)
    return best, result


replay_seconds, addresses = timed(replay)
sizes_seconds, found = timed(sizes)
answers.write(
    json.dumps(
        {
            "replay_seconds": replay_seconds,
            "addresses": addresses,
            "sizes_seconds": sizes_seconds,
            "bytes_per_bank": found,
        }
    )
    + "\n"
)
answers.flush()
ttnn.close_device(device)
