# SPDX-License-Identifier: Apache-2.0
"""Tensors of a capture as the twin writes them."""

from ttmem.hardware import DATA_TYPES, MEMORIES
from ttmem.profile.model import MEMORIES as MEMORY_NAMES
from ttmem.profile.tensor_type import TensorType
from ttmem.twin.tensor_spec import LAYOUTS, TensorSpec


def spec_of(type_: TensorType) -> TensorSpec | None:
    """As the twin writes it; sharding is not known in full, so it is left out."""
    if type_.dtype not in DATA_TYPES or not type_.layout or type_.memory not in MEMORY_NAMES:
        return None
    return TensorSpec(
        type_.shape, DATA_TYPES.find(type_.dtype), LAYOUTS.find(type_.layout), MEMORIES.find(type_.memory)
    )
