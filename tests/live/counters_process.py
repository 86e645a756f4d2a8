# SPDX-License-Identifier: Apache-2.0
"""Holds tensors on a mock n150 with counters switched on; runs under the interpreter that has ttnn.

    python counters_process.py FOLDER CHIP_UNIQUE_ID

Each line on stdin ends a step; each line on stdout says that the step is reached.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))
import mock_cluster

FOLDER, CHIP = Path(sys.argv[1]), int(sys.argv[2])
ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # the library writes to stdout when it fails
variables = mock_cluster.prepare("n150", FOLDER, Path(importlib.util.find_spec("ttnn").origin).parent)
del variables["TT_METAL_SHM_TRACKING_DISABLED"]
description = Path(variables["TT_METAL_MOCK_CLUSTER_DESC_PATH"])
document = json.loads(description.read_text())
# A chip of its own, so that nobody else's counters are read or written.
description.write_text(json.dumps({**document, "chip_unique_ids": {"0": CHIP}}, separators=(", ", " : ")))
os.environ.update(variables)
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
