# SPDX-License-Identifier: Apache-2.0
"""How exactly the kernels of a call add up: the one of its options that changes the size of buffers."""

from typing import Any

from ttmem.hardware import BFLOAT16, FLOAT32, DataType
from ttmem.twin.operations.plan import Call
from ttmem.twin.operations.record import Argument, Choose, Step

KERNEL_CONFIG = Argument("compute_kernel_config", default=None)


def adds_in_float32(call: Call) -> bool:
    return bool((call.arguments["compute_kernel_config"] or {}).get("fp32_dest_acc_en"))


def type_between(call: Call) -> DataType:
    """Of what lies between two kernels."""
    return FLOAT32 if adds_in_float32(call) else BFLOAT16


def draw_kernel_config(choose: Choose) -> dict[str, Any]:
    """As an option of a call; mostly left out."""
    if choose.integer(0, 3):
        return {}
    options: Step = {"fp32_dest_acc_en": bool(choose.integer(0, 1)), "packer_l1_acc": bool(choose.integer(0, 1))}
    return {"compute_kernel_config": {"new": "ttnn.WormholeComputeKernelConfig", "kwargs": options}}
