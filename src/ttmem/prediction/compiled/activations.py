# SPDX-License-Identifier: Apache-2.0
"""An activation that another operation applies to its result."""

from collections.abc import Mapping
from typing import Any


def fused_activation(said: Any) -> dict[str, Any] | None:
    """``#ttnn.unary_with_param<op_type = silu>``, or the bare name."""
    kind = said.get("op_type") if isinstance(said, Mapping) else said
    if not kind:
        return None
    kinds = {"attribute": f"ttnn.UnaryOpType.{str(kind).upper()}"}
    return {"new": "ttnn.UnaryWithParam", "args": [kinds], "kwargs": {}}
