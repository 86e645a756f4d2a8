# SPDX-License-Identifier: Apache-2.0
"""How an amount of memory is written for people: MiB, called MB as ttnn and its logs call it."""

MIB = 1 << 20


def megabytes(amount_bytes: float, *, decimals: int = 3, signed: bool = False) -> str:
    """``6.902 MB``; three decimals are what the logs print, so more would be invented."""
    sign = "+" if signed else ""
    return f"{_no_minus_zero(amount_bytes / MIB, decimals):{sign},.{decimals}f} MB"


def percent(share: float | None, *, decimals: int = 1, signed: bool = False) -> str:
    """``81.3%``; a dash for a share of nothing (a memory of 0 bytes)."""
    if share is None:
        return "-"
    sign = "+" if signed else ""
    return f"{_no_minus_zero(share, decimals):{sign},.{decimals}f}%"


def _no_minus_zero(value: float, decimals: int) -> float:
    return round(value, decimals) + 0.0
