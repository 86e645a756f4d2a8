# SPDX-License-Identifier: Apache-2.0
"""Operators and shapes, as tools write them into names and reasons."""

import re

from ttmem.base.errors import BadInputError

_SIZE = r"[0-9]{1,15}"
_LISTED = re.compile(r"\[[0-9,\s]+\]|\([0-9,\s]+\)")
"""Simple, because names and reasons may hold anything: what it finds is looked at again."""
_CROSSED = re.compile(rf"(?<![\w.]){_SIZE}(?:x{_SIZE})+(?![\w.])")


class NoResultsError(BadInputError):
    """A document of the right format that is about something else."""

    def __init__(self, where: str) -> None:
        super().__init__("holds no test results that are known", where=where)


def shapes_in(text: str) -> tuple[tuple[int, ...], ...]:
    """Shapes as tools write them: ``[1, 3, 224, 224]``, ``(1, 3, 224, 224)``, ``1x3x224x224``."""
    written = (match[0] for match in _LISTED.finditer(text) if match[0][0] == "[" or "," in match[0])
    listed = (text[1:-1].rstrip(" ,").split(",") for text in written)
    found = [sizes for sizes in listed if all(re.fullmatch(_SIZE, size.strip()) for size in sizes)]
    crossed = (match[0].split("x") for match in ([] if found else _CROSSED.finditer(text)))
    return tuple(tuple(map(int, sizes)) for sizes in (*found, *crossed))


def operator_of(name: str) -> str:
    """``test_silu.py``, ``tests.ttnn.test_silu``, ``test_silu_results.txt`` -> ``silu``."""
    word = name.rsplit("/", 1)[-1]
    word = re.sub(r"\.(py|txt|log|xml)$", "", word).rsplit(".", 1)[-1]
    word = re.sub(r"_results?$", "", word)
    return re.sub(r"^test_", "", word) or word
