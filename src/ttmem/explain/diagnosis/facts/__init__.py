# SPDX-License-Identifier: Apache-2.0
"""What is known beside the failures themselves: builds and their sizes, dimensions of models."""

from __future__ import annotations

from functools import cache
from typing import Any

from ttmem import _toml


@cache
def facts(name: str) -> dict[str, Any]:
    """One of the files beside this one, by its stem."""
    return _toml.packaged(__name__, f"{name}.toml")
