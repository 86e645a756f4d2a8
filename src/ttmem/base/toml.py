# SPDX-License-Identifier: Apache-2.0
"""TOML, which the standard library reads from Python 3.11 on and ``tomli`` before."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def loads(text: str) -> dict[str, Any]:
    """Parse a document; raises ValueError when the text is not TOML."""
    document: dict[str, Any] = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli").loads(text)
    return document


def load_packaged(package: str, name: str) -> dict[str, Any]:
    """Load a TOML file of a package (by its path: ``importlib.resources`` is slow to import)."""
    return loads((Path(str(import_module(package).__file__)).parent / name).read_text(encoding="utf-8"))
