# SPDX-License-Identifier: Apache-2.0
"""How exactly the kernels of a call add up: the one of its options that changes the size of buffers."""

from ttmem.hardware import BFLOAT16, FLOAT32, DataType
from ttmem.twin.operations.plan import Call
from ttmem.twin.operations.record import Argument

KERNEL_CONFIG = Argument("compute_kernel_config", default=None)


def adds_in_float32(call: Call) -> bool:
    return bool((call.arguments["compute_kernel_config"] or {}).get("fp32_dest_acc_en"))


def type_between(call: Call) -> DataType:
    """Of what lies between two kernels."""
    return FLOAT32 if adds_in_float32(call) else BFLOAT16
