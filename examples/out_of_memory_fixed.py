# SPDX-License-Identifier: Apache-2.0
"""`out_of_memory.py` with its mistake mended: an activation is freed when the next one is there.

    ttmem run examples/out_of_memory_fixed.py --board n150

The tutorial (docs/tutorial.md) compares the two.
"""

import ttnn


def allocate(device, *shape):
    return ttnn.allocate_tensor_on_device(
        ttnn.Shape(list(shape)), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG
    )


def main():
    device = ttnn.open_device(device_id=0)
    x = allocate(device, 1, 1, 4096, 2048)
    for _ in range(8):
        y = ttnn.gelu(x)
        ttnn.deallocate(x)
        x = y
    ttnn.close_device(device)


if __name__ == "__main__":
    main()
