# SPDX-License-Identifier: Apache-2.0
"""Search for a limit: the largest whole number that passes."""

from collections.abc import Callable


def find_first_failure(low: int, high: int, passes: Callable[[int], bool]) -> int:
    """Return the smallest number that fails, given that ``low`` passes, ``high`` fails, and larger ones fail too."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return high
