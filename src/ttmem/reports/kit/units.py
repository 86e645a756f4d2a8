# SPDX-License-Identifier: Apache-2.0
"""How reports write amounts, shapes and names: one place, so that every format says the same."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.analysis.amounts import MIB, megabytes, percent

__all__ = [
    "MIB",
    "counted",
    "megabytes",
    "mib",
    "one_line",
    "operation_label",
    "percent",
    "shape_text",
    "short",
    "thousands",
]

_SHORT_DTYPES = {
    "bfloat16": "bf16",
    "float32": "f32",
    "bfloat8_b": "bfp8",
    "bfloat4_b": "bfp4",
    "float16": "f16",
    "int32": "si32",
    "uint32": "ui32",
    "uint16": "ui16",
    "uint8": "ui8",
}


def mib(amount_bytes: float, *, decimals: int = 3, signed: bool = False) -> str:
    """``6.902``: the bare number, for columns whose head says MB."""
    return megabytes(amount_bytes, decimals=decimals, signed=signed).removesuffix(" MB")


def thousands(count: int) -> str:
    """``562,894``."""
    return f"{count:,}"


def counted(count: int, noun: str) -> str:
    """``1 run``, ``5 runs``."""
    return f"{thousands(count)} {noun}{'' if count == 1 else 's'}"


def shape_text(shape: Sequence[int], dtype: str = "") -> str:
    """``1x32x4x64 (bf16)``, the notation that readers of these reports know."""
    text = "x".join(map(str, shape)) or "scalar"
    return f"{text} ({_SHORT_DTYPES.get(dtype, dtype)})" if dtype else text


def operation_label(index: int | None, name: str) -> str:
    """``#169 ttnn.to_layout``."""
    return name if index is None else f"#{index} {name}"


def one_line(text: str) -> str:
    """Names and messages come from logs: whatever control characters they hold, a cell stays a cell."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def short(text: str, width: int) -> str:
    """Cut in the middle, and more of the head than of the tail: names begin alike and end with what they are."""
    text = one_line(text)
    if len(text) <= width:
        return text
    tail = (width - 1) * 2 // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"
