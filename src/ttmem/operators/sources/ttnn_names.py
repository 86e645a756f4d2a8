# SPDX-License-Identifier: Apache-2.0
"""From a function of ttnn back to the aten operator that it stands for in the catalogue."""

from __future__ import annotations

import functools
import re

from ttmem.operators.catalogue_entries import catalogue

_PREFERRED = {
    "reshape": "view",
    "transpose": "transpose",
    "matmul": "matmul",
    "add": "add",
    "max": "amax",
    "softmax": "_softmax",
    "clamp": "clamp",
    "split": "split",
    "embedding": "embedding",
    "batch_norm": "native_batch_norm",
    "scaled_dot_product_attention": "scaled_dot_product_attention",
    "zeros": "zeros",
    "ones": "ones",
    "full": "full",
    "full_like": "full_like",
    "zeros_like": "zeros_like",
    "squeeze": "squeeze",
    "slice": "slice",
    "where": "where",
    "sum": "sum",
    "upsample": "upsample_nearest2d",
    "conv2d": "convolution",
    "sub": "sub",
    "mul": "mul",
    "to_memory_config": "",
}
"""Where several operators share a function, the one whose arguments are the function's own."""


@functools.cache
def _by_function() -> dict[str, str]:
    found: dict[str, str] = {}
    for operator in catalogue().operators.values():
        calls = [variant.call for variant in operator.variants]
        if len(calls) == 1 and not operator.aten.endswith("_"):
            names = re.findall(r"ttnn\.(?:\w+\.)*(\w+)\(", calls[0])
            if len(names) == 1:
                found.setdefault(names[0], operator.aten)
    return found | _PREFERRED


def aten_of_ttnn(name: str) -> str:
    """``ttnn::multiply`` -> ``mul``; empty when no operator stands for it."""
    word = re.split(r"::|\.", name.strip())[-1].removesuffix("_bw")
    found = _by_function().get(word)
    if found is not None:
        return found
    known = catalogue().aten_name(word)
    return known if known in catalogue().operators else ""
