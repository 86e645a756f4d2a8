# SPDX-License-Identifier: Apache-2.0
"""Small programs with one thing wrong each, and the same done right."""

from __future__ import annotations

from typing import NamedTuple


class Planted(NamedTuple):
    """A program with a problem."""

    body: str
    finding: str
    """The kind that has to come first; empty where it is no waste, only something to change."""
    tensor: str
    edit: str
    """What ``tune`` has to find; empty where nothing can be written."""
    clean: str = ""
    """The same without the problem."""
    open: str = ""
    limit: str = ""
    """``--max-l1`` or ``--max-dram`` with which it is asked."""


PROBLEMS = {
    "late free": Planted(
        """
        big = make(1, 8, 1024, 1024)
        half = ttnn.relu(big)
        x = make(1, 4, 1024, 1024)
        for _ in range(3):
            x = ttnn.gelu(x)
        ttnn.deallocate(big)
        ttnn.deallocate(x)
        y = ttnn.gelu(half)
        """,
        "late-free",
        "big",
        "free:big@",
        """
        big = make(1, 8, 1024, 1024)
        half = ttnn.relu(big)
        ttnn.deallocate(big)
        x = make(1, 4, 1024, 1024)
        for _ in range(3):
            x = ttnn.gelu(x)
        ttnn.deallocate(x)
        y = ttnn.gelu(half)
        """,
    ),
    "leak in a loop": Planted(
        """
        x = make(1, 1, 512, 512)
        kept = []
        for _ in range(6):
            y = ttnn.exp(x)
            kept.append(y)
            z = ttnn.add(y, y)
            z = None
        """,
        "leak",
        "kept[]",
        "free:y@",
        """
        x = make(1, 1, 512, 512)
        for _ in range(6):
            y = ttnn.exp(x)
            z = ttnn.add(y, y)
            y = z = None
        """,
    ),
    "uploaded twice": Planted(
        """
        host = ttnn.Tensor([0.0] * 1024 * 1024, [1, 1, 1024, 1024], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
        query = ttnn.to_device(host, device)
        key = ttnn.to_device(host, device)
        x = ttnn.add(query, key)
        y = ttnn.add(x, key)
        z = ttnn.add(y, query)
        """,
        "double-upload",
        "key",
        "",
    ),
    "wrong memory": Planted(
        """
        skip = make(1, 1, 2048, 2048, memory=L1)
        x = make(1, 1, 2048, 1024)
        for _ in range(4):
            x = ttnn.gelu(x)
        y = ttnn.relu(skip, memory_config=DRAM)
        """,
        "",
        "skip",
        "memory:skip@",
        limit="l1",
    ),
    "bad order": Planted(
        """
        late = make(1, 8, 1024, 1024)
        x = make(1, 4, 1024, 1024)
        y = ttnn.exp(x)
        z = ttnn.add(x, y)
        ttnn.deallocate(x)
        ttnn.deallocate(y)
        w = ttnn.relu(late)
        """,
        "",
        "late",
        "order:late@12=last",
        """
        x = make(1, 4, 1024, 1024)
        y = ttnn.exp(x)
        z = ttnn.add(x, y)
        ttnn.deallocate(x)
        ttnn.deallocate(y)
        late = make(1, 8, 1024, 1024)
        w = ttnn.relu(late)
        """,
    ),
    "needless float32": Planted(
        """
        wide = make(1, 4, 1024, 1024, dtype=ttnn.float32)
        x = make(1, 1, 1024, 1024)
        y = ttnn.gelu(x)
        z = ttnn.softmax(wide, dim=-1)
        """,
        "wide-dtype",
        "wide",
        "dtype:wide@",
    ),
    "padding": Planted(
        """
        thin = make(1, 4096, 1, 32)
        y = ttnn.relu(thin)
        z = ttnn.add(y, thin)
        """,
        "padding",
        "thin",
        "",
    ),
    "unused region": Planted(
        """
        x = make(1, 1, 1024, 1024, memory=L1)
        y = ttnn.gelu(x)
        z = ttnn.add(x, y)
        """,
        "unused-region",
        "",
        "region:L1_SMALL=0",
        """
        x = make(1, 1, 1024, 1024, memory=L1)
        y = ttnn.gelu(x)
        z = ttnn.add(x, y)
        """,
        open="l1_small_size=65536",
    ),
    "no reuse": Planted(
        """
        x = make(1, 4, 1024, 1024)
        y = ttnn.gelu(x)
        del x
        z = ttnn.sum(y, dim=-1)
        """,
        "",
        "y",
        "inplace:",
    ),
    "growing tables": Planted(
        """
        for size in range(1, 7):
            x = make(1, size, 330, 500)
            y = ttnn.reshape(x, (1, 1, size * 500, 330))
            del x, y
        """,
        "growth",
        "kept by ttnn.reshape",
        "",
    ),
}


CLEAN = {
    "written in place": """
        x = make(1, 4, 1024, 1024)
        for _ in range(4):
            x = ttnn.gelu(x, output_tensor=x)
        """,
    "a model with weights": """
        class Layer:
            def __init__(self):
                self.up, self.down = make(1, 1, 512, 2048), make(1, 1, 2048, 512)

            def __call__(self, x):
                inner = ttnn.linear(x, self.up)
                ttnn.deallocate(x)
                return ttnn.linear(ttnn.gelu(inner), self.down)


        layers = [Layer() for _ in range(3)]
        x = make(1, 1, 512, 512)
        for layer in layers:
            x = layer(x)
        ttnn.close_device(device)
        """,
    "a host tensor uploaded once": """
        host = ttnn.Tensor([0.0] * 512 * 512, [1, 1, 512, 512], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
        x = ttnn.to_layout(ttnn.to_device(host, device), ttnn.TILE_LAYOUT)
        print(ttnn.from_device(ttnn.softmax(x, dim=-1)).shape)
        """,
    "through L1 in shards": """
        def sharded(x):
            cores = ttnn.CoreGrid(y=4, x=4)
            form = ttnn.create_sharded_memory_config((1, 1, 512, 256), cores, ttnn.ShardStrategy.HEIGHT)
            inside = ttnn.to_memory_config(x, form)
            try:
                return ttnn.relu(inside, memory_config=DRAM)
            finally:
                ttnn.deallocate(inside)


        for _ in range(3):
            y = sharded(make(1, 1, 512, 256))
            del y
        """,
    "a cache that is written to": """
        cache, step = make(1, 8, 256, 64), make(1, 8, 1, 64)
        for position in range(4):
            ttnn.update_cache(cache, step, position)
        y = ttnn.add(cache, cache)
        """,
}
"""Programs of other styles with nothing to find."""
