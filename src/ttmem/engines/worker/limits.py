# SPDX-License-Identifier: Apache-2.0
"""Limits on a test's memory as people write them: ``90%`` of a bank, or an amount per bank such as ``1.2MiB``."""

from __future__ import annotations

import re
from typing import NamedTuple

_UNITS = {"b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%|[a-z]+)\s*", re.IGNORECASE)


class Limit(NamedTuple):
    """One limit; ``text`` is how it was written."""

    text: str
    percent: float | None
    bytes_per_bank: int | None

    def allowed(self, bank_bytes: int) -> int:
        """In bytes of a bank of that size."""
        if self.bytes_per_bank is not None:
            return self.bytes_per_bank
        return int(bank_bytes * (self.percent or 0.0) / 100)


def parse_limit(value: object) -> Limit:
    """A limit of a mark; ``ValueError`` says what would be right. A bare number is refused: 80 of what?"""
    matched = _FORM.fullmatch(str(value))
    unit = matched[2].lower() if matched else ""
    if matched is None or (unit != "%" and unit not in _UNITS):
        raise ValueError(f"'{value}' is no limit: write '90%' of a bank, or bytes per bank such as '1.2MiB'")
    number = float(matched[1])
    if unit == "%":
        return Limit(str(value), number, None)
    return Limit(str(value), None, int(number * _UNITS[unit]))
