# SPDX-License-Identifier: Apache-2.0
"""The names in a recipe's expressions: of the model, the chips and banks, and the request."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ttmem.base.arithmetic import round_up
from ttmem.base.errors import BadInputError
from ttmem.base.expression import ExpressionError, Language
from ttmem.hardware import DRAM, MemoryMap
from ttmem.prediction.language.dimensions import Dimensions

_LEAST_PROMPT = 128
_NEXT_PROMPT = 1024


def _divide_up(number: int, by: int) -> int:
    return -(-number // by)


def _count_even_cores(tiles: int, side: int) -> int:
    """Return the size of the largest grid that divides the tiles evenly; full rows are tried first."""
    for columns in range(side, 0, -1):
        for rows in range(side, 0, -1):
            if tiles % (rows * columns) == 0:
                return rows * columns
    return 1


def _pad_prompt(tokens: int, most: int) -> int:
    """Pad a prompt to 128, to 1,024, then to powers of two, but never beyond a chunk."""
    if tokens <= _LEAST_PROMPT:
        padded = _LEAST_PROMPT
    else:
        padded = _NEXT_PROMPT if tokens <= _NEXT_PROMPT else 1 << (tokens - 1).bit_length()
    return min(padded, most) if most else padded


LANGUAGE = Language(
    constants=(int, str),
    choices=True,
    groups=True,
    functions={
        "min": min,
        "max": max,
        "up": round_up,
        "ceil": _divide_up,
        "even_cores": _count_even_cores,
        "padded_prompt": _pad_prompt,
    },
    hint="use whole numbers, 'texts', names, + - * // %, comparisons, in, and, or, not, min(), max(), up(size, step), "
    "ceil(size, by) and 'a if b else c'",
)

_MODEL_NAMES = tuple(
    field.name for field in fields(Dimensions) if field.name not in ("sliding", "per_layer", "assumed")
)
_LAYER_NAMES = ("layer", "is_sliding")
_BOARD_NAMES = ("chips", "chip_rows", "chip_columns", "banks", "bank_bytes", "architecture")
_REQUEST_NAMES = ("users", "context", "prompt", "chunk", "phase")
KNOWN_NAMES = (*_MODEL_NAMES, *_LAYER_NAMES, *_BOARD_NAMES, *_REQUEST_NAMES)


@dataclass(frozen=True, slots=True)
class Scope:
    """Names with their values; ``extend`` adds some."""

    names: Mapping[str, Any]
    where: str

    def extend(self, more: Mapping[str, Any]) -> "Scope":
        return Scope({**self.names, **more}, self.where)

    def value(self, text: int | str) -> Any:
        if isinstance(text, int):
            return text
        try:
            return LANGUAGE.evaluate(text, self.names)
        except ExpressionError as error:
            raise BadInputError(f"{text!r}: {error}", where=self.where, hint=error.hint) from error
        except TypeError as error:
            raise BadInputError(f"{text!r}: {error}", where=self.where) from error

    def number(self, text: int | str) -> int:
        found = self.value(text)
        if not isinstance(found, int):
            raise BadInputError(f"{text!r} is {found!r}, not a number", where=self.where)
        return int(found)

    def holds(self, condition: str) -> bool:
        """Return whether a condition holds; an empty one does."""
        return not condition or bool(self.value(condition))


def collect_names(dimensions: Dimensions, memory_map: MemoryMap, chips: int) -> dict[str, Any]:
    pool = memory_map.pool(DRAM)
    rows, columns = (8, 4) if chips == 32 else (1, chips)
    return {
        **{name: getattr(dimensions, name) for name in _MODEL_NAMES},
        "layer": 0,
        "is_sliding": False,
        "chips": chips,
        "chip_rows": rows,
        "chip_columns": columns,
        "banks": pool.banks,
        "bank_bytes": pool.bytes_per_bank,
        "architecture": memory_map.architecture.name,
    }
