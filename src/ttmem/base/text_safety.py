# SPDX-License-Identifier: Apache-2.0
"""The one gate for text: text from a log must not move the cursor, set a title or reverse a line.

Names and messages come from programs that we do not know. Every text for a terminal or a text file passes
``escape_control_characters``; the functions that print and write call it, so no verb has to remember it. It replaces
characters by escapes (``\\x1b``, ``\\u202e``), as JSON would.
"""

import re
from typing import Any

_ASCII_CONTROLS = bytes((*range(9), *range(11, 32), 127))
_HOSTILE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and newline: escape sequences begin with them
    "\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"  # marks without width, of direction
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # that join or format
    "\ud800-\udfff"  # half of a pair: bytes that were no UTF-8
    "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"  # private: every font draws another sign, or none
    "\U000e0000-\U000e0fff]"  # invisible letters
)
"""What Unicode calls a control, a format, a surrogate, private, a separator of lines, or ignorable by default: the
tests hold it to that, character by character. All else is seen, and stays."""
_HIGH, _LOW = r"u[dD][89aAbB][0-9a-fA-F]{2}", r"u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF_PAIR = re.compile(rf"\\(?:{_HIGH}\\{_LOW}|({_HIGH}|{_LOW})|.)")
"""Any escape of JSON, so that a backslash that is itself escaped begins none; the group is half of a pair."""


class Styled(str):
    """A text that was escaped before our own colours were put into it."""

    __slots__ = ()


def escape_control_characters(text: str) -> str:
    """Escape all characters that control a terminal or are invisible; line breaks and tabs stay."""
    if isinstance(text, Styled):
        return text
    if text.isascii():
        raw = text.encode("ascii")
        if len(raw.translate(None, _ASCII_CONTROLS)) == len(raw):
            return text
    return _HOSTILE.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Escape line breaks too: a name with a line break in it must not begin a new line.

    The caller of ttmem may obey such a line: ``::error::`` in the log of a GitHub workflow is a command.
    """
    return escape_control_characters(text).replace("\n", "\\n")


def escape_half_pairs_in_json(json_text: str) -> str:
    """Escape half surrogate pairs in a JSON document in ASCII as ``escape_control_characters`` does.

    Python accepts any name for a module; files and paths do not.
    """
    return _HALF_PAIR.sub(lambda escape: f"\\\\{escape[1]}" if escape[1] else escape[0], json_text)


def escape_json(encoded: bytes) -> bytes:
    """Escape the strings of a JSON document with JSON's own escapes: its content does not change."""
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _HOSTILE.sub(_escape, encoded.decode("utf-8", "replace")).encode()


def replace_half_pairs(text: str) -> str:
    """Return the text without half surrogate pairs, which JSON, msgpack and UTF-8 cannot hold.

    Those that encode bytes of a file name become the replacement character, others are escaped.
    """
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()


def replace_half_pairs_in(value: Any) -> Any:
    """Replace half surrogate pairs in every text of plain dictionaries and lists."""
    if isinstance(value, str):
        return replace_half_pairs(value)
    if isinstance(value, dict):
        return {replace_half_pairs_in(key): replace_half_pairs_in(item) for key, item in value.items()}
    return [replace_half_pairs_in(item) for item in value] if isinstance(value, list | tuple) else value


def encode_json(value: Any) -> bytes:
    """Encode a value or a document as JSON with escaped texts."""
    import msgspec

    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(replace_half_pairs_in(msgspec.to_builtins(value)))
    return escape_json(encoded)


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    if number < 0x20:
        return f"\\x{number:02x}"
    if number < 0x10000:
        return f"\\u{number:04x}"
    pair = found[0].encode("utf-16-be").hex()
    return f"\\u{pair[:4]}\\u{pair[4:]}"
