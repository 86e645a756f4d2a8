# SPDX-License-Identifier: Apache-2.0
"""Tensors inside of what people hand around: lists, dicts and their kin, dataclasses, objects of their own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

_DEEPEST = 12


def tensors_within(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each tensor with the way to it, in order."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif len(path) < _DEEPEST:
        for name, item in _parts(value):
            yield from tensors_within(item, (*path, name))


def map_tensors(value: Any, change: Callable[[Any], Any], depth: int = 0) -> Any:
    """The same with every tensor replaced; what holds none is the same object."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if depth > _DEEPEST:
        return value
    if isinstance(value, (list, tuple)):
        items = [map_tensors(item, change, depth + 1) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if type(value) is dict:
        return {key: map_tensors(item, change, depth + 1) for key, item in value.items()}
    if not any(True for _ in tensors_within(value)):
        return value
    made = copy.copy(value)
    if isinstance(made, Mapping):  # a dict's kin that can be written to; its own kind matters to the model
        if hasattr(made, "data") and isinstance(made.data, dict):
            made.data = dict(made.data)
        for key in list(made):
            made[key] = map_tensors(made[key], change, depth + 1)  # type: ignore[index]
        return made
    for name, item in _parts(value):
        object.__setattr__(made, name, map_tensors(item, change, depth + 1))
    return made


def _parts(value: Any) -> Sequence[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(str(key), value[key]) for key in value]
    if isinstance(value, (list, tuple)):
        return [(str(number), item) for number, item in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return [("", item) for item in value]
    if isinstance(value, (type, torch.nn.Module)) or callable(value):
        return ()
    named = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = getattr(kind, "__slots__", ())
        named.update({name: getattr(value, name) for name in ([slots] if isinstance(slots, str) else slots)
                      if hasattr(value, name)})  # fmt: skip
    return list(named.items())
