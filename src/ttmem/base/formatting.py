# SPDX-License-Identifier: Apache-2.0
"""Amounts of memory as text for people: MiB, which ttnn and its logs call MB."""

MIB = 1 << 20


def megabytes(amount_bytes: float, *, decimals: int = 3, signed: bool = False) -> str:
    """``6.902 MiB``; three decimals are what the logs print, so more would be invented."""
    sign = "+" if signed else ""
    return f"{_no_minus_zero(amount_bytes / MIB, decimals):{sign},.{decimals}f} MiB"


def percent(share: float | None, *, decimals: int = 1, signed: bool = False) -> str:
    """``81.3%``; a dash for a share of nothing (a memory of 0 bytes)."""
    if share is None:
        return "-"
    sign = "+" if signed else ""
    return f"{_no_minus_zero(share, decimals):{sign},.{decimals}f}%"


def _no_minus_zero(value: float, decimals: int) -> float:
    return round(value, decimals) + 0.0
