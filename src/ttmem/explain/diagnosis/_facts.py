# SPDX-License-Identifier: Apache-2.0
"""What is known beside the failures themselves (``facts/*.toml``): builds and their sizes, dimensions of models."""

from __future__ import annotations

from functools import cache
from typing import Any

from ttmem.explain.knowledge.loading import read_toml


@cache
def facts(name: str) -> dict[str, Any]:
    """One file of ``facts/`` by its stem."""
    ((_, document),) = read_toml("facts", only=f"{name}.toml")
    return document
