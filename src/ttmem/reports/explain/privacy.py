# SPDX-License-Identifier: Apache-2.0
"""Text fit to be shown to strangers: only what is known to be harmless stays.

No list of patterns knows every secret, so the text of a failure is read word by word: what the library's own messages
are made of stays, and so do figures, shapes, names of operations, boards and data types, functions of the library and
the base names of its source files. Everything else is replaced by what kind of thing it seems to be.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from ttmem.reports.explain import plain_words

_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>)`]+", re.IGNORECASE)
_ACCOUNT = re.compile(r"(?<![\w.-])[\w.+-]+(?::[^\s@/]+)?@[\w-]+(?:\.[\w-]+)*")
_SECRET = re.compile(
    r"(?i)(?P<key>\b[\w.-]*(?:passw(?:or)?d|passphrase|passwd|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|credentials?|authori[sz]ation|auth|cookie|session[_-]?id|token|signature)\b[\"']?)"
    r"(?P<between>\s*(?:[=:]|\bis\b|\bwas\b)\s*(?:(?:bearer|basic|digest|negotiate|token)\s+)?)"
    r"(?P<value>\"[^\"]*\"|'[^']*'|`[^`]*`|[^\s\"'`]+(?:;\s+[\w-]+=\S+)*)"
)
_SCHEME = re.compile(
    r"(?i)(?P<key>\b(?:bearer|password|passphrase|passwd)\b)(?P<between>\s+)(?P<value>(?!is\b|was\b)[^\s\"'`=:]+)"
)
_PATH = re.compile(
    r"(?:~[\w.-]*|(?<![A-Za-z])[A-Za-z]:|\.{1,2})?(?<![\w<])(?:[/\\][^\s/\\\"'`<>|:;,()\[\]{}]+)+[/\\]?"
    r"|(?<![\w.])(?:~[\w.-]*|\.{1,2})(?:[/\\][^\s/\\\"'`<>|:;,()\[\]{}]+)+[/\\]?"
)
_GLUED_PATH = re.compile(r"(?<![\w-])(?P<flag>-[A-Za-z])(?P<path>[/\\~.][^\s\"'`<>|:;,()\[\]{}]+)")
_HOST = re.compile(
    r"(?<![\w./-])[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9-]+)*"
    r"\.(?:com|net|org|io|ai|dev|cloud|local|localdomain|internal|intra|intranet|lan|corp|home|edu|gov|test|example)"
    r"(?![\w(])",
    re.IGNORECASE,
)
_HOST_WORD = re.compile(
    r"(?i)\b(host(?:name)?|node(?:name)?|server|machine|user(?:name)?|login)(\s*[=:]\s*|\s+name\s+)([\w.-]+)"
)
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2})?(?::\d{1,5})?(?![\d.])")
_MAC = re.compile(r"(?<![\w:])(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}(?![\w:])", re.IGNORECASE)
_IPV6 = re.compile(
    r"(?<![\w:])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?:\.\d{1,3}){0,3}(?:%\w+)?(?:/\d{1,3})?(?![\w:])", re.IGNORECASE
)
_COMMON_NAMES = frozenset({"root", "user", "admin", "ubuntu", "runner", "test", "localhost", "main", "build"})

_PLACEHOLDER = r"<[a-z]+>(?:@<[a-z]+>)?"
_OF_LIBRARY = r"(?:tt\w*|std|pybind11|nanobind|torch|at|c10|fmt)(?:::~?\w+)+|(?:ttnn|torch)(?:\.[a-z_]\w*)+"
_PIECE = re.compile(rf"(?P<kept>{_PLACEHOLDER}|{_OF_LIBRARY})|[^\s\"'`()\[\]{{}}<>,;:=|&]+")
_FIGURE = re.compile(
    r"[#%~+-]{0,2}\d{1,15}(?:[.,_/x*-]\d{1,15}){0,15}(?:e[+-]?\d{1,3})?"
    r"(?:[kmgt]?i?b(?:/s)?|[kmg]hz|%|x|[mun]?s|st|nd|rd|th|d)?|[+-]?0x[0-9a-f]{1,16}|[^\w\s]{1,3}",
    re.IGNORECASE,
)
_SOURCE = re.compile(r"\.(?:cpp|hpp|cc|cxx|h|hh|inl|cu)$")
_LIBRARY_FOLDERS = {"tt_metal", "ttnn", "tt-metal", "tt_eager", "tt_stl", "tt-mlir", "tt-xla"}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def without_private(text: str, *, names: Iterable[str] = ()) -> str:
    """A sentence of our own, freed of what came into it from the text and can be recognised as private."""
    return Mask(names).sentence(text)


class Mask:
    """Takes private things out of texts and remembers what they were.

    ``names`` are the reader's own: account and host of the machine, which no pattern can know.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = [name for name in names if len(name) > 2 and name.lower() not in _COMMON_NAMES]
        self.masked: list[tuple[str, str]] = []
        """(what kind, the text itself), in the order in which they were met."""

    def counts(self) -> dict[str, int]:
        """Different things by kind."""
        return dict(Counter(kind for kind, _ in dict.fromkeys(self.masked)))

    def sentence(self, text: str) -> str:
        """Our own words around pieces of the text: what can be recognised goes; of a path its last part may stay."""
        text = _URL.sub(lambda found: self._instead("url", found[0]), text)
        for pattern in (_SECRET, _SCHEME):
            text = pattern.sub(self._secret, text)
        text = _ACCOUNT.sub(lambda found: self._instead("account", found[0], "<user>@<host>"), text)
        text = _GLUED_PATH.sub(lambda found: found["flag"] + self._path(found["path"]), text)
        text = _PATH.sub(lambda found: self._path(found[0]), text)
        text = _HOST_WORD.sub(lambda found: found[1] + found[2] + self._instead("name", found[3]), text)
        for pattern in (_MAC, _IPV4):
            text = pattern.sub(lambda found: self._instead("address", found[0]), text)
        text = _IPV6.sub(self._address, text)
        text = _HOST.sub(lambda found: self._instead("host", found[0]), text)
        for name in self._names:
            whole = rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"
            text = re.sub(whole, lambda found: self._instead("name", found[0]), text, flags=re.IGNORECASE)
        return text

    def quoted(self, text: str) -> str:
        """Somebody else's words: of them only those stay that are known to be harmless."""
        return _PIECE.sub(self._piece, self.sentence(text))

    def _piece(self, found: re.Match[str]) -> str:
        word = found[0]
        core = word.strip(".!?*#$%^~-+/\\")
        if found["kept"] or not core or _is_harmless(word) or _is_harmless(core):
            return word
        return self._instead("word", word)

    def _secret(self, found: re.Match[str]) -> str:
        if re.fullmatch(r"[\"'`]?<\w+>[\"'`]?", found["value"]) or _is_count(found):
            return found[0]
        return found["key"] + found["between"] + self._instead("secret", found["value"])

    def _address(self, found: re.Match[str]) -> str:
        bare = re.split(r"[%/]", found[0])[0]
        try:
            ipaddress.IPv6Address(bare)
        except ValueError:
            return found[0]
        return self._instead("address", found[0]) if bare.strip(":") else found[0]

    def _path(self, path: str) -> str:
        """``bank_manager.cpp`` of a path to it; nothing of a path to a folder, which may be someone's home."""
        parts: Sequence[str] = re.split(r"[/\\]", path.rstrip("/\\"))
        last = parts[-1]
        self.masked.append(("path", path))
        if re.search(r"\.\w{1,8}$", last):
            of_library = _SOURCE.search(last) and not _LIBRARY_FOLDERS.isdisjoint(parts)
            return last if of_library or _is_harmless(last) else "<file>"
        return "<path>"

    def _instead(self, kind: str, text: str, shown: str = "") -> str:
        self.masked.append((kind, text))
        return shown or f"<{kind}>"


def _is_count(found: re.Match[str]) -> bool:
    """``max_token: 128`` and ``token is 5`` are figures of a model."""
    return found["key"].lower().endswith("token") and bool(re.fullmatch(r"\d{1,7}[.,;)]?", found["value"]))


@cache
def _is_harmless(word: str) -> bool:
    """A figure, a word of the messages, or a name that is made of such words."""
    if len(word) > 100:
        return False
    if _FIGURE.fullmatch(word):
        return True
    lowered = word.lower()
    if lowered in _vocabulary():
        return True
    if _SOURCE.search(word) and re.fullmatch(r"[a-z0-9_]+\.\w+", word):
        return True  # where an assertion names its file without a path
    if re.search(r"\d", word):  # names of machines are words with numbers, so those must be known as they are
        return all(
            part in _vocabulary() or re.fullmatch(r"\d{1,6}", part) for part in re.split(r"[._/]", lowered) if part
        )
    found = _WORDS.findall(word)
    return bool(found) and all(part.lower() in _vocabulary() for part in found)


@cache
def _vocabulary() -> frozenset[str]:
    return plain_words.vocabulary()
