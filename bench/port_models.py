# SPDX-License-Identifier: Apache-2.0
"""The torch models that ports of tt-metal were written for, as TARGETs of ``ttmem fit`` (see ``fit_ports.py``).

Some are classes of the checkout itself, which ``PORTS_CHECKOUT`` names; others are torchvision's or timm's.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import torch


def _of_checkout(module: str, name: str) -> Any:
    place = os.environ["PORTS_CHECKOUT"]
    if place not in sys.path:
        sys.path.append(place)
    return getattr(importlib.import_module(module), name)


def vgg_unet() -> Any:
    importlib.import_module("offline_models")  # its weights are random here too
    return _of_checkout("models.demos.vision.segmentation.vgg_unet.common.reference.vgg_unet", "UNetVGG19")()


def ufld_v2(height: int, width: int) -> Any:
    kind = _of_checkout("models.demos.vision.segmentation.ufld_v2.common.reference.ufld_v2_model", "TuSimple34")
    return kind(input_height=height, input_width=width)


def unet_shallow() -> Any:
    return _of_checkout("models.experimental.functional_unet.tt.unet_shallow_torch", "UNet")(groups=4)


def four_groups(batch: int, height: int, width: int) -> torch.Tensor:
    return torch.empty(batch, 16, height, width, device="meta")


def image(batch: int, height: int, width: int) -> torch.Tensor:
    return torch.empty(batch, 3, height, width, device="meta")


def vovnet() -> Any:
    return importlib.import_module("timm").create_model("ese_vovnet19b_dw", pretrained=False)


def torchvision_model(name: str) -> Any:
    return importlib.import_module("torchvision").models.get_model(name, weights=None)
