# SPDX-License-Identifier: Apache-2.0
"""Properties of an operation, ``<{dim = 3 : si32, keep_dim = true}>``, as plain values.

Numbers, texts, lists and objects are themselves. Of an attribute of a dialect its content counts:
``#ttcore.supportedDataTypes<bf16>`` is ``"bf16"``, ``#ttnn.shape<1x32>`` is ``[1, 32]``, ``#ttnn.conv2d_config<a = 1>``
is ``{"a": 1}``.
"""

import re
from collections.abc import Mapping
from typing import Any

from ttmem.base.limits import NUMBER_DIGITS

_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<number>-?(?:0x[0-9A-Fa-f]{{1,{NUMBER_DIGITS}}}|\d{{1,{NUMBER_DIGITS}}}(?:\.\d{{1,40}})?(?:[eE][-+]?\d{{1,3}})?)(?![\w.]))
      | (?P<text>"[^"]*")
      | (?P<word>[@\#!]?[A-Za-z_$\d][\w.$\#-]*)
      | (?P<mark>->|::|.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_SIZES = re.compile(r"\d{1,15}(?:x\d{1,15})*")
_CLOSING = {"<": ">", "[": "]", "{": "}", "(": ")"}
_DEEPEST = 24
"""Brackets inside each other; real ones reach six."""
_END = ("", "")


def parse_properties(text: bytes, aliases: Mapping[bytes, bytes] | None = None) -> dict[str, Any]:
    """The properties that ``text`` holds, without the outer brackets; what cannot be read is left out."""
    return _Parser(text.decode("utf-8", "replace"), aliases or {}).entries()


class _Parser:
    """One pass over the tokens; every value knows where it ends."""

    def __init__(self, text: str, aliases: Mapping[bytes, bytes], depth: int = 0) -> None:
        self._tokens = [(m.lastgroup or "", m[m.lastgroup or 0]) for m in _TOKEN.finditer(text)]
        self._at = 0
        self._aliases = aliases
        self._depth = depth

    def _next(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _take(self, mark: str) -> bool:
        found = self._next()[1] == mark
        self._at += found
        return found

    def entries(self, closing: str = "") -> dict[str, Any]:
        """``a = 1, b`` up to the closing bracket, which is taken too."""
        found: dict[str, Any] = {}
        while self._next() != _END and not self._take(closing):
            _, key = self._next()
            self._at += 1
            found[key.strip('"')] = self._value() if self._take("=") else True
            self._skip_to_comma(closing)
        return found

    def _skip_to_comma(self, closing: str) -> None:
        """What follows a value and says nothing: its type, ``: i32``."""
        while (token := self._next()) != _END and token[1] not in (",", closing):
            self._at += 1
            if token[1] in _CLOSING:
                self._skip_bracket(_CLOSING[token[1]])
        self._take(",")

    def _skip_bracket(self, closing: str) -> None:
        open_brackets = [closing]
        while open_brackets and self._next() != _END:
            mark = self._next()[1]
            self._at += 1
            if mark == open_brackets[-1]:
                open_brackets.pop()
            elif mark in _CLOSING:
                open_brackets.append(_CLOSING[mark])

    def _value(self) -> Any:
        kind, text = self._next()
        self._at += 1
        if kind == "number":
            return float(text) if not text.lstrip("-").isdigit() and "0x" not in text else int(text, 0)
        if kind == "text":
            return text[1:-1]
        if text == "[":
            return self._items("]")
        if text == "{":
            return self.entries("}") if self._deeper() else None
        if text == "<":
            return self._content()
        if kind == "word":
            return self._named(text)
        return None

    def _deeper(self) -> bool:
        self._depth += 1
        return self._depth < _DEEPEST

    def _items(self, closing: str) -> list[Any]:
        found: list[Any] = []
        if not self._deeper():
            return found
        while self._next() != _END and not self._take(closing):
            found.append(self._value())
            self._skip_to_comma(closing)
        self._depth -= 1
        return found

    def _named(self, word: str) -> Any:
        """``true``, ``bf16``, ``@callee``, an alias, or a name with its content in brackets."""
        if word in ("true", "false"):
            return word == "true"
        if word == "array" and self._take("<"):
            self._at += 1  # the elements' type
            self._take(":")
            return self._items(">")
        if self._take("<"):
            if word in ("dense", "dense_resource", "tensor", "memref"):
                self._skip_bracket(">")
                return None
            return self._content()
        target = self._aliases.get(word.removeprefix("#").encode()) if word.startswith("#") else None
        if target is not None and self._deeper():
            return _Parser(target.decode("utf-8", "replace"), self._aliases, self._depth)._value()
        return word.lstrip("@#")

    def _content(self) -> Any:
        """What is between ``<`` and ``>``: sizes, one value, or entries."""
        if not self._deeper():
            return None
        begin = self._at
        if self._tokens[begin + 1 : begin + 2] and self._tokens[begin + 1][1] == "=":
            return self.entries(">")
        kind, word = self._next()
        if kind in ("word", "number") and self._tokens[begin + 1 : begin + 2] == [("mark", ">")]:
            self._at += 2
            if _SIZES.fullmatch(word):
                return [int(size) for size in word.split("x")]
            return word.lstrip("@#")
        items = self._items(">")
        return items[0] if len(items) == 1 else items
