# SPDX-License-Identifier: Apache-2.0
"""What is known beside the failures themselves: builds and their sizes, dimensions of models, how logs are printed.

Read and compiled when it is first needed: most runs never fail.
"""

import re
from functools import cache
from typing import Any

from ttmem.base import toml


@cache
def facts(name: str) -> dict[str, Any]:
    """One of the files beside this one, by its stem."""
    return toml.load_packaged(__name__, f"{name}.toml")


@cache
def pattern(table: str, name: str) -> re.Pattern[str]:
    """A regular expression of ``patterns.toml``."""
    return re.compile(facts("patterns")[table][name])
