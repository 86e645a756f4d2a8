# SPDX-License-Identifier: Apache-2.0
"""Text fit to be shown to strangers: without paths, user names, hosts and addresses of the network."""

import re
from collections.abc import Iterable

_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>)]+", re.IGNORECASE)
_ACCOUNT = re.compile(r"(?<![\w.-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*")
_PATH = re.compile(
    r"(?:(?<=[\s\"'(\[=:,{@>])|^)(?:~[\w.-]*|[A-Za-z]:|\.{1,2})?"
    r"(?:[/\\][^\s/\\\"'<>|:;,()\[\]{}]+)+[/\\]?",
    re.MULTILINE,
)
_HOST = re.compile(
    r"(?<![\w./-])[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9-]+)*"
    r"\.(?:com|net|org|io|ai|dev|cloud|local|localdomain|internal|intra|lan|corp|home|edu)(?![\w(])",
    re.IGNORECASE,
)
_HOST_WORD = re.compile(r"(?i)\b(host(?:name)?|node|server|user(?:name)?)(\s*[=:]\s*|\s+name\s+)([\w.-]+)")
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?![\d.])")
_IPV6 = re.compile(r"(?<![\w:])(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}(?![\w:])", re.IGNORECASE)
_MAC = re.compile(r"(?<![\w:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:])", re.IGNORECASE)
_COMMON_NAMES = frozenset({"root", "user", "admin", "ubuntu", "runner", "test", "localhost", "main", "build"})


def without_private(text: str, *, names: Iterable[str] = ()) -> str:
    """The text with private parts replaced; of a path its last part stays, which names a source file.

    ``names`` are the reader's own: account and host of the machine, which no pattern can know.
    """
    text = _URL.sub("<url>", text)
    text = _ACCOUNT.sub("<user>@<host>", text)
    text = _PATH.sub(_last_part, text)
    text = _HOST_WORD.sub(r"\1\2<name>", text)
    for pattern, word in ((_MAC, "<address>"), (_IPV6, "<address>"), (_IPV4, "<address>"), (_HOST, "<host>")):
        text = pattern.sub(word, text)
    for name in names:
        if len(name) > 2 and name.lower() not in _COMMON_NAMES:
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", "<name>", text, flags=re.IGNORECASE)
    return text


def _last_part(path: re.Match[str]) -> str:
    """``bank_manager.cpp`` of a path to it; nothing of a path to a folder, which may be someone's home."""
    last = re.split(r"[/\\]", path[0].rstrip("/\\"))[-1]
    return last if re.search(r"\.\w{1,8}$", last) else "<path>"
