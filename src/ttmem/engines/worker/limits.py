# SPDX-License-Identifier: Apache-2.0
"""Limits as people write them: a share of a bank, or bytes per bank."""

import re

_UNITS = {"b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_LIMIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%|[a-z]+)\s*", re.IGNORECASE)


def allowed_bytes(limit: object, bank_bytes: int) -> int:
    """What a limit of a mark leaves of a bank; ``ValueError`` says what would be right. A bare number: 80 of what?"""
    matched = _LIMIT.fullmatch(str(limit))
    unit = matched[2].lower() if matched else ""
    if matched is None or (unit != "%" and unit not in _UNITS):
        raise ValueError(f"'{limit}' is no limit: write '90%' of a bank, or bytes per bank such as '1.2MiB'")
    number = float(matched[1])
    return int(bank_bytes * number / 100 if unit == "%" else number * _UNITS[unit])
