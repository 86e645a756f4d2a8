# SPDX-License-Identifier: Apache-2.0
"""A run that ends out of memory, for real: activations kept in L1 until one more does not fit.

    ttmem run examples/out_of_memory.py --board n150

The error is the library's own; ttmem tells which operation asked for how much and what lay in the way.
"""

import ttnn


def allocate(device, *shape):
    return ttnn.allocate_tensor_on_device(
        ttnn.Shape(list(shape)), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG
    )


def main():
    device = ttnn.open_device(device_id=0)
    x = allocate(device, 1, 1, 4096, 2048)
    kept = []  # the mistake: nothing here is freed before the end
    for _ in range(8):
        x = ttnn.gelu(x)
        kept.append(x)
    ttnn.close_device(device)


if __name__ == "__main__":
    main()
