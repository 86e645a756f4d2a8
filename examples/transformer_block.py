# SPDX-License-Identifier: Apache-2.0
"""A small transformer block in plain ttnn: attention, then a feed-forward network, both with a residual.

    ttmem run examples/transformer_block.py --board n150

It needs neither torch nor a card. On a mock board nothing is computed, but every allocation, every validation and every
program is the real library's.
"""

import argparse

import ttnn

HIDDEN, HEADS, FEED_FORWARD = 1024, 16, 4096


def allocate(device, *shape, memory=ttnn.DRAM_MEMORY_CONFIG):
    """Room for a tensor; its values do not matter here."""
    return ttnn.allocate_tensor_on_device(ttnn.Shape(list(shape)), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


class Block:
    def __init__(self, device):
        self.norm_1 = allocate(device, 1, HIDDEN)
        self.norm_2 = allocate(device, 1, HIDDEN)
        self.qkv = allocate(device, HIDDEN, 3 * HIDDEN)
        self.out = allocate(device, HIDDEN, HIDDEN)
        self.up = allocate(device, HIDDEN, FEED_FORWARD)
        self.down = allocate(device, FEED_FORWARD, HIDDEN)

    def attention(self, x):
        normed = ttnn.layer_norm(x, weight=self.norm_1)
        fused = ttnn.linear(normed, self.qkv)
        ttnn.deallocate(normed)
        q, k, v = ttnn.experimental.nlp_create_qkv_heads(
            fused, num_heads=HEADS, num_kv_heads=HEADS, transpose_k_heads=False
        )
        ttnn.deallocate(fused)
        attended = ttnn.transformer.scaled_dot_product_attention(q, k, v, is_causal=True)
        merged = ttnn.experimental.nlp_concat_heads(attended)
        return ttnn.linear(merged, self.out)

    def feed_forward(self, x):
        normed = ttnn.layer_norm(x, weight=self.norm_2)
        inner = ttnn.linear(normed, self.up, memory_config=ttnn.L1_MEMORY_CONFIG)
        ttnn.deallocate(normed)
        active = ttnn.gelu(inner)
        ttnn.deallocate(inner)
        return ttnn.linear(active, self.down)

    def __call__(self, x):
        x = ttnn.add(x, self.attention(x))
        return ttnn.add(x, self.feed_forward(x))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--sequence", type=int, default=1024)
    options.add_argument("--blocks", type=int, default=2)
    options = options.parse_args()
    device = ttnn.open_device(device_id=0)
    blocks = [Block(device) for _ in range(options.blocks)]
    x = allocate(device, 1, 1, options.sequence, HIDDEN)
    for block in blocks:
        x = block(x)
    ttnn.close_device(device)


if __name__ == "__main__":
    main()
