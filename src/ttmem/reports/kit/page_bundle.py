# SPDX-License-Identifier: Apache-2.0
"""The frame of every page: the app of ``web/`` with its data in one offline file.

The data is text that the app alone unpacks, so nothing in it can become markup. The policy in the page's head lets
exactly this script and this style sheet run, and nothing be loaded.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from ttmem._version import __version__
from ttmem.reports.kit.columns import Packed, as_text
from ttmem.reports.kit.templates import asset, markup, render
from ttmem.reports.kit.units import one_line

_LONGEST_TEXT = 20_000


def frame(kind: str, title: str, blocks: Sequence[bytes], *, plain: str = "", served: bool = False) -> str:
    """The page of one kind; ``plain`` is what a reader without scripts gets, ``served`` lets it ask its own server."""
    style, script = asset("app.css"), asset("app.js")
    return render(
        "page.html.j2",
        kind=kind,
        title=one_line(title),
        plain=plain,
        blocks=[as_text(block) for block in blocks],
        style=markup(style),
        script=markup(script),
        style_hash=_hash("app.css"),
        script_hash=_hash("app.js"),
        served=served,
    )


def data_frame(kind: str, title: str, data: dict[str, Any], *, plain: str = "", served: bool = False) -> str:
    """A page whose data is a document alone."""
    return frame(kind, title, [Packed(header(data)).compressed()], plain=plain, served=served)


def header(data: dict[str, Any]) -> dict[str, Any]:
    """The header of every page, with the texts of sources made printable."""
    cleaned: dict[str, Any] = clean({**data, "ttmem": __version__})
    return cleaned


def clean(value: Any) -> Any:
    """The one gate of a page: no control, escape or bidi characters in any text, however deep it lies."""
    if isinstance(value, str):
        if value.isprintable() and len(value) <= _LONGEST_TEXT:
            return value
        return "".join(char if char.isprintable() else " " for char in value[:_LONGEST_TEXT])
    if isinstance(value, dict):
        return {clean(str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return value


@cache
def _hash(name: str) -> str:
    digest = hashlib.sha256(asset(name).encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
