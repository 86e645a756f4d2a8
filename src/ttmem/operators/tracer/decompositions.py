# SPDX-License-Identifier: Apache-2.0
"""Operators that the device has no call for, as those it has: by torch's own decompositions."""

from __future__ import annotations

from typing import Any

import torch

MOST_CALLS = 64
"""What falls into more pieces than this is better named as a whole."""
_ATTENTION = {
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
}


def is_attention_of_other_heads(name: str, args: Any, multiple: int) -> bool:
    """Return True for fused attention whose heads are no multiple."""
    return bool(multiple) and name in _ATTENTION and any(tensor.shape[-1] % multiple for tensor in args[:3])


def attention(named: dict[str, Any]) -> Any:
    """Decompose it into products and a softmax."""
    mask = named.get("attn_mask", named.get("attn_bias"))
    is_causal, scale = bool(named.get("is_causal")), named.get("scale")
    given = named["query"], named["key"], named["value"], mask, 0.0, is_causal, None
    return torch.ops.aten._scaled_dot_product_attention_math.default.decompose(*given, scale=scale)[0]


def add_mask_rows(recorder: Any, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Arguments of fused attention with one row of the mask for each of the query, which the device does not repeat."""
    for word in ("attn_mask", "attn_bias") if name in _ATTENTION else ():
        mask, place = kwargs.get(word), -1
        for number, argument in enumerate(func._schema.arguments):
            if argument.name == word and number < len(args):
                mask, place = args[number], number
        if isinstance(mask, torch.Tensor) and mask.dim() > 1 and mask.shape[-2] == 1 < args[0].shape[-2]:
            with recorder:
                mask = mask.expand(*mask.shape[:-2], args[0].shape[-2], mask.shape[-1])
            if place < 0:
                return args, {**kwargs, word: mask}
            return (*args[:place], mask, *args[place + 1 :]), kwargs
    return args, kwargs


def decomposition(func: Any) -> Any:
    """torch's own, or None. (Its table is loaded when it is first wanted.)"""
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
        return func.decompose
    from torch._decomp import decomposition_table

    return decomposition_table.get(func)
