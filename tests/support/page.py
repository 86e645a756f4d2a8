# SPDX-License-Identifier: Apache-2.0
"""What a page holds, unpacked as the app unpacks it, and a real browser to open it in."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import numpy as np

_BLOCK = re.compile(r'<script type="application/octet-stream" data-role="block">([^<]*)</script>')


@dataclass
class Block:
    """One block of a page: its header, its columns of integers, its texts."""

    header: dict[str, Any]
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)


def blocks(page: str) -> list[Block]:
    """The blocks of a page, the app's way: planes, sign in the lowest bit, sums of steps."""
    return [_unpacked(zlib.decompress(base64.b64decode(text, validate=True))) for text in _BLOCK.findall(page)]


def _unpacked(content: bytes) -> Block:
    at = 4 + int.from_bytes(content[:4], "little")
    block = Block(json.loads(content[4:at]))
    for column in block.header.pop("columns"):
        name, width, count = column["name"], column["width"], column["count"]
        size = (width or 1) * count
        part = content[at : at + size]
        at += size
        if not width:
            block.texts[name] = part
            continue
        planes = np.frombuffer(part, np.uint8).reshape(width, count).T
        folded = np.ascontiguousarray(planes).view(f"<u{width}").reshape(-1).astype(np.uint64)
        values = (folded >> np.uint64(1)).astype(np.int64) ^ -(folded & np.uint64(1)).astype(np.int64)
        block.columns[name] = np.cumsum(values) if column["steps"] else values
    assert at == len(content)
    return block


class Outline(HTMLParser):
    """Tags that are open at the end, all tags with their attributes, and the text outside scripts and styles."""

    VOID = ("meta", "input", "path", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag in self.VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def cells(self) -> str:
        return " ".join(" ".join(self.text).split())
