# SPDX-License-Identifier: Apache-2.0
"""Synthetic tt-mlir / TT-XLA runtime logs together with what is true of them.

Written from the description of the formats and from nothing else: it shares no code with the reader whose oracle it
is. `python -m loggen --help` lists what it can do.
"""

from __future__ import annotations

from loggen.generation import generate
from loggen.options import OptionError, Options
from loggen.process import GenerationError

__all__ = ["GenerationError", "OptionError", "Options", "generate"]
