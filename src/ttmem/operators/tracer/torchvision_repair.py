# SPDX-License-Identifier: Apache-2.0
"""Lets torchvision be imported where its compiled part does not fit the installed torch, as with CPU builds.

Its Python files refer to two operators while they are imported; declaring those is enough for every model without
boxes to build and to run on fake tensors. Models that really call them are refused when they do.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

import torch

_DECLARATIONS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_kept: list[Any] = []
"""The declarations end with the object that made them."""


def make_importable() -> None:
    """Nothing to do where torchvision is absent or whole."""
    if _kept or "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for declaration in _DECLARATIONS:
            library.define(declaration)
        _kept.append(library)
    except Exception:  # whatever else is wrong with it shows when a model imports it
        return
