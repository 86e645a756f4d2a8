# SPDX-License-Identifier: Apache-2.0
"""Columns of integers as a browser unpacks them: small, and quick to make at a million rows.

A column is written as differences where neighbours are near each other, sign folded into the lowest bit, cut to the
fewest bytes that hold it, and split into planes (all lowest bytes, then all second ones ...). A decode loop repeats
itself, so its planes do too, and deflate finds the repetition. ``web/src/data/columns.ts`` is the other half.
"""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ttmem.base.text_safety import encode_json

_LEVEL = 6


@dataclass(slots=True)
class Packed:
    """The content of one block: a JSON header and columns, in the order in which they were added."""

    header: dict[str, Any]
    columns: list[dict[str, Any]] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)

    def integers(self, name: str, values: ArrayLike, *, steps: bool = False) -> None:
        """A column of integers; ``steps`` when neighbours are near each other."""
        column = np.asarray(values, np.int64).reshape(-1)
        if steps and len(column):
            column = np.diff(column, prepend=np.int64(0))
        folded = ((column << 1) ^ (column >> 63)).view(np.uint64)
        highest = int(folded.max(initial=0))
        width = next(width for width in (1, 2, 4, 8) if highest < 1 << (8 * width))
        planes = folded.astype(f"<u{width}").view(np.uint8).reshape(-1, width).T
        self.columns.append({"name": name, "width": width, "steps": steps, "count": len(column)})
        self.parts.append(np.ascontiguousarray(planes).tobytes())

    def table(self, prefix: str, columns: Mapping[str, ArrayLike], *, steps: bool = False) -> None:
        """Several columns of one table, named ``prefix.column``."""
        for name, values in columns.items():
            self.integers(f"{prefix}.{name}", values, steps=steps)

    def texts(self, name: str, pool: bytes, ends: ArrayLike) -> None:
        """Texts one after the other in UTF-8, and where each of them ends."""
        self.columns.append({"name": name, "width": 0, "steps": False, "count": len(pool)})
        self.parts.append(pool)
        self.integers(f"{name}.end", ends, steps=True)

    def compressed(self) -> bytes:
        """Length of the header, header, columns; deflated with a zlib frame."""
        header = encode_json({**self.header, "columns": self.columns})
        pressed = zlib.compressobj(_LEVEL)
        parts = [pressed.compress(part) for part in (len(header).to_bytes(4, "little"), header, *self.parts)]
        return b"".join((*parts, pressed.flush()))


def as_text(compressed: bytes) -> str:
    """Base64: nothing in it can end a script element."""
    return base64.b64encode(compressed).decode("ascii")
