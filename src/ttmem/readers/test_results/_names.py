# SPDX-License-Identifier: Apache-2.0
"""Operators and shapes, as tools write them into names and reasons."""

import ast
import re

from ttmem._errors import BadInputError

_SHAPE = re.compile(r"\[\s*\d+(?:\s*,\s*\d+)*\s*,?\s*\]|\(\s*\d+\s*,\s*(?:\d+\s*,?\s*)*\)")
_CROSSED = re.compile(r"(?<![\w.])\d+(?:x\d+)+(?![\w.])")


class NoResultsError(BadInputError):
    """A document of the right format that is about something else."""

    def __init__(self, where: str) -> None:
        super().__init__("holds no test results that are known", where=where)


def shapes_in(text: str) -> tuple[tuple[int, ...], ...]:
    """Shapes as tools write them: ``[1, 3, 224, 224]``, ``(1, 3, 224, 224)``, ``1x3x224x224``."""
    found = tuple(tuple(ast.literal_eval(match[0])) for match in _SHAPE.finditer(text))
    return found or tuple(tuple(map(int, match[0].split("x"))) for match in _CROSSED.finditer(text))


def operator_of(name: str) -> str:
    """``test_silu.py``, ``tests.ttnn.test_silu``, ``test_silu_results.txt`` -> ``silu``."""
    word = name.rsplit("/", 1)[-1]
    word = re.sub(r"\.(py|txt|log|xml)$", "", word).rsplit(".", 1)[-1]
    word = re.sub(r"_results?$", "", word)
    return re.sub(r"^test_", "", word) or word
