# SPDX-License-Identifier: Apache-2.0
"""TOML, which the standard library reads from Python 3.11 on and ``tomli`` before."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def loads(text: str) -> dict[str, Any]:
    """The document in the text; raises ValueError when it is none."""
    document: dict[str, Any] = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli").loads(text)
    return document


def packaged(package: str, name: str) -> dict[str, Any]:
    """A file of ours that lies in a package (by its path: ``importlib.resources`` is slow to import)."""
    return loads((Path(str(import_module(package).__file__)).parent / name).read_text(encoding="utf-8"))
