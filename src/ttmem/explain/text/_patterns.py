# SPDX-License-Identifier: Apache-2.0
"""The regular expressions of ``patterns.toml``, compiled when they are first needed: most runs never fail."""

from __future__ import annotations

import re
from functools import cache

from ttmem import _toml


@cache
def pattern(table: str, name: str) -> re.Pattern[str]:
    """One of them, by its table and name."""
    return re.compile(tables()[table][name])


@cache
def tables() -> dict[str, dict[str, str]]:
    """All of the file."""
    return _toml.packaged(__package__, "patterns.toml")
