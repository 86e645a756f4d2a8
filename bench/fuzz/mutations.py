# SPDX-License-Identifier: Apache-2.0
"""From a valid source to one that is nearly valid: flipped, cut, spliced, repeated, retyped, encoded, packed."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable

import zstandard

_NUMBER = re.compile(rb"\d+(?:\.\d+)?")
_VALUE = re.compile(rb'"(?:[^"\\]|\\.){0,40}"|\b\d+\b|\btrue\b|\bfalse\b|\bnull\b')
_EXTREMES = (
    *(b"0", b"-1", b"1", b"4294967296", b"9223372036854775808", b"18446744073709551616", b"9" * 30, b"9" * 5000),
    *(b"1e400", b"nan", b"NaN", b"-0", b"0x7fffffffffffffff", b"1.5", b"", b"\xd9\xa3"),
)
_OTHER_VALUES = (
    *(
        b"null",
        b"[]",
        b"{}",
        b'""',
        b'"\\ud800"',
        b"[[[[]]]]",
        b'{"a": {"b": []}}',
        b"true",
        b"-1",
        b"1e999",
        b"[1, 2]",
    ),
    *(b'"\\u0000\\u001b[31m"', b'"\xe2\x80\xae"', b'"x' + b"y" * 500 + b'"', b"9" * 400, b"0.1"),
)
_CONTROLS = (
    b"\x1b[31m",
    b"\x1b]0;title\x07",
    b"\r",
    b"\x00",
    b"\xe2\x80\xae",
    b"\xff\xfe",
    b"\xc2\x9b",
    b"\x08",
    b"\x7f",
)


def _position(chance: random.Random, data: bytes) -> int:
    return chance.randrange(len(data) + 1)


def _flip(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 3, 20)) if data else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut(chance: random.Random, data: bytes) -> bytes:
    first, last = sorted((_position(chance, data), _position(chance, data)))
    return chance.choice((data[:first], data[first:], data[:first] + data[last:]))


def _repeat(chance: random.Random, data: bytes) -> bytes:
    first = _position(chance, data)
    piece = data[first : first + chance.choice((1, 8, 60, 400))]
    return data[:first] + piece * chance.choice((2, 30, 1000)) + data[first:]


def _splice(chance: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    for _ in range(chance.choice((1, 3, 10))):
        lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines)[: chance.choice((10, 100, 100_000))])
    if chance.random() < 0.3:
        chance.shuffle(lines)
    return (b"" if chance.random() < 0.1 else b"\n").join(lines)


def _with_numbers(chance: random.Random, data: bytes) -> bytes:
    return _some_replaced(chance, data, _NUMBER, _EXTREMES)


def _with_other_types(chance: random.Random, data: bytes) -> bytes:
    return _some_replaced(chance, data, _VALUE, _OTHER_VALUES)


def _some_replaced(chance: random.Random, data: bytes, what: re.Pattern[bytes], by: tuple[bytes, ...]) -> bytes:
    found = list(what.finditer(data))
    for match in sorted(
        chance.sample(found, min(len(found), chance.choice((1, 1, 2, 5)))), key=lambda one: -one.start()
    ):
        data = data[: match.start()] + chance.choice(by) + data[match.end() :]
    return data


def _with_controls(chance: random.Random, data: bytes) -> bytes:
    for _ in range(chance.choice((1, 5))):
        at = _position(chance, data)
        data = data[:at] + chance.choice(_CONTROLS) + data[at:]
    return data


def _encoded(chance: random.Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(chance.choice(("utf-16", "utf-8-sig", "latin-1", "utf-32")), "replace")


def _packed(chance: random.Random, data: bytes) -> bytes:
    packed = gzip.compress(data, 1) if chance.random() < 0.5 else zstandard.ZstdCompressor().compress(data)
    return chance.choice((packed, packed + packed, _cut(chance, packed), _flip(chance, packed), packed + data[:50]))


_WAYS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(_flip, _cut, _repeat, _splice, _splice, _with_numbers, _with_numbers, _with_other_types, _with_other_types),
    *(_with_controls, _encoded, _packed),
)
MOST_BYTES = 400_000


def mutated(chance: random.Random, data: bytes) -> bytes:
    """One to three changes."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        data = chance.choice(_WAYS)(chance, data)[:MOST_BYTES]
    return data
