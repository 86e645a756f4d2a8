# SPDX-License-Identifier: Apache-2.0
"""Division and rounding that sizes need."""


def ceil_div(value: int, divisor: int) -> int:
    """Return the quotient, rounded up."""
    return -(-value // divisor)


def round_up(value: int, multiple: int) -> int:
    """Return the smallest multiple that is not below the value."""
    return -(-value // multiple) * multiple
