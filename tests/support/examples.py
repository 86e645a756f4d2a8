# SPDX-License-Identifier: Apache-2.0
"""The number of hypothesis examples of a test, as a factor of the profile.

``quick`` (``make check``) tries a tenth, the others all; ``TTMEM_EXAMPLES=3`` (``make nightly``) three times as many.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

_FACTOR = float(os.environ.get("TTMEM_EXAMPLES", "0.1" if os.environ.get("TTMEM_HYPOTHESIS") == "quick" else "1"))


def examples(count: int, **options: Any) -> settings:
    """Return settings with ``count`` examples times the profile's factor, and at least two."""
    return settings(max_examples=max(2, round(count * _FACTOR)), deadline=None, **options)
