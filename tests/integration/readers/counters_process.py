# SPDX-License-Identifier: Apache-2.0
"""Holds tensors on a mock n150 with counters switched on; runs under the interpreter that has ttnn, in an environment
that names the mock board (``oracle.real.mock_environment``).

    python counters_process.py FOLDER CHIP_UNIQUE_ID

Each line on stdin ends a step; each line on stdout says that the step is reached.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

FOLDER, CHIP = Path(sys.argv[1]), int(sys.argv[2])
ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # the library writes to stdout when it fails
description = Path(os.environ["TT_METAL_MOCK_CLUSTER_DESC_PATH"])
document = json.loads(description.read_text())
# A chip of its own, so that nobody else's counters are read or written.
description.write_text(json.dumps({**document, "chip_unique_ids": {"0": CHIP}}, separators=(", ", " : ")))
os.chdir(FOLDER)

import ttnn  # noqa: E402

dispatch = ttnn.DispatchCoreConfig(type=ttnn.device.DispatchCoreType.WORKER)
device = ttnn.open_device(device_id=0, dispatch_core_config=dispatch)


def tensor(memory):
    shape = ttnn.Shape([1, 1, 1024, 1024])
    return ttnn.allocate_tensor_on_device(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


def reached(step):
    ANSWERS.write(f"{step}\n")
    sys.stdin.readline()


a, b = tensor(ttnn.DRAM_MEMORY_CONFIG), tensor(ttnn.DRAM_MEMORY_CONFIG)
c = tensor(ttnn.L1_MEMORY_CONFIG)
reached("two in DRAM, one in L1")
ttnn.deallocate(a)
reached("one in DRAM, one in L1")
d = ttnn.add(b, b)
reached("after an add")
ttnn.close_device(device)
ANSWERS.write("closed\n")
