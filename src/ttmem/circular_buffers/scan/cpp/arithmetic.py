# SPDX-License-Identifier: Apache-2.0
"""The integer arithmetic of host code: C++ operators and the pure functions that sizes are made with.

A function gets its arguments with None for the unknown ones and answers None when it needs one of them.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence

from ttmem.base import toml
from ttmem.base.limits import NUMBER_BITS
from ttmem.hardware import DATA_TYPES

Value = int | str
"""A number, or the name of a data format or data type."""
_Arguments = Sequence["Value | None"]

LIBRARY = toml.load_packaged("ttmem.circular_buffers.scan.cpp", "library.toml")
FORMATS: Mapping[str, str] = LIBRARY["formats"]
CONSTANTS: Mapping[str, int] = LIBRARY["constants"]
SIZEOF: Mapping[str, int] = LIBRARY["sizeof"]
ENUMERATIONS, ENUMERATORS = frozenset(LIBRARY["enumerations"]), frozenset(LIBRARY["enumerators"])
"""What the library's headers define (``library.toml`` says what each is)."""
_BY_LOWER = {name.lower(): name for name in FORMATS}


def format_of(name: str) -> str | None:
    """The data type behind a format or type name, whichever way it is spelled (`Float16_b`, `BFLOAT16`, `bf16`)."""
    if name in FORMATS:
        return FORMATS[name]
    if found := DATA_TYPES.get(name):
        return found.name
    folded = _BY_LOWER.get(name.lower())
    return FORMATS[folded] if folded else None


def tile_bytes(name: str) -> int | None:
    """Bytes of one 32x32 tile of this format."""
    data_type = format_of(name)
    return DATA_TYPES.find(data_type).tile_bytes() if data_type else None


def element_bytes(name: str) -> int | None:
    """Bytes of one element; block floats have none of their own."""
    data_type = format_of(name)
    return DATA_TYPES.find(data_type).element_bytes if data_type else None


def divide_towards_zero(left: int, right: int) -> int | None:
    """C++ rounds towards zero; None where C++ would trap."""
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int | None:
    quotient = divide_towards_zero(left, right)
    return None if quotient is None else left - quotient * right


def _shift(direction: Callable[[int, int], int]) -> Callable[[int, int], int | None]:
    return lambda left, right: direction(left, right) if 0 <= right < 64 else None


def _limit_bits(number: int | None) -> int | None:
    """Unknown when it is wider than any type of C++: what code squares again and again has no size."""
    return None if number is None or number.bit_length() > NUMBER_BITS else number


def _apply_to_integers(function: Callable[[int, int], int | None]) -> Callable[[Value, Value], int | None]:
    def on_values(left: Value, right: Value) -> int | None:
        return _limit_bits(function(left, right)) if isinstance(left, int) and isinstance(right, int) else None

    return on_values


def _equal(left: Value, right: Value) -> int:
    if isinstance(left, str) and isinstance(right, str):
        return int(left == right or (format_of(left) is not None and format_of(left) == format_of(right)))
    return int(left == right)


BINARY: dict[str, Callable[[Value, Value], int | None]] = {
    "+": _apply_to_integers(operator.add),
    "-": _apply_to_integers(operator.sub),
    "*": _apply_to_integers(operator.mul),
    "/": _apply_to_integers(divide_towards_zero),
    "%": _apply_to_integers(_remainder),
    "<<": _apply_to_integers(_shift(operator.lshift)),
    ">>": _apply_to_integers(_shift(operator.rshift)),
    "&": _apply_to_integers(operator.and_),
    "|": _apply_to_integers(operator.or_),
    "^": _apply_to_integers(operator.xor),
    "<": _apply_to_integers(lambda a, b: int(a < b)),
    "<=": _apply_to_integers(lambda a, b: int(a <= b)),
    ">": _apply_to_integers(lambda a, b: int(a > b)),
    ">=": _apply_to_integers(lambda a, b: int(a >= b)),
    "==": _equal,
    "!=": lambda a, b: 1 - _equal(a, b),
    "&&": _apply_to_integers(lambda a, b: int(bool(a) and bool(b))),
    "||": _apply_to_integers(lambda a, b: int(bool(a) or bool(b))),
}
UNARY: dict[str, Callable[[int], int]] = {
    "-": operator.neg,
    "+": operator.pos,
    "!": lambda a: int(not a),
    "~": operator.invert,
}


def _apply_to_numbers(
    function: Callable[..., int | None], count: int | None = None
) -> Callable[[_Arguments], int | None]:
    """A function of a fixed number of numbers."""

    def on_arguments(arguments: _Arguments) -> int | None:
        numbers = [argument for argument in arguments if isinstance(argument, int)]
        fits = numbers and len(numbers) == len(arguments) == (count or len(numbers))
        return _limit_bits(function(*numbers)) if fits else None

    return on_arguments


def _apply_to_format(function: Callable[[str], int | None]) -> Callable[[_Arguments], int | None]:
    def on_arguments(arguments: _Arguments) -> int | None:
        return function(arguments[0]) if len(arguments) == 1 and isinstance(arguments[0], str) else None

    return on_arguments


_PURE: dict[Callable[[_Arguments], Value | None], tuple[str, ...]] = {
    _apply_to_numbers(lambda *numbers: min(numbers)): ("min",),
    _apply_to_numbers(lambda *numbers: max(numbers)): ("max",),
    _apply_to_numbers(math.lcm): ("lcm",),
    _apply_to_numbers(math.gcd): ("gcd",),
    _apply_to_numbers(abs, 1): ("abs",),
    _apply_to_numbers(lambda a, b: -(-a // b) if b > 0 else None, 2): ("div_up", "div_ceil", "ceil_div", "divup"),
    _apply_to_numbers(lambda a, b: -(-a // b) * b if b > 0 else None, 2): (
        *("round_up", "roundup", "align", "align_up", "ceil_multiple_of", "round_up_to_tile"),
    ),
    _apply_to_numbers(lambda a: -(-a // 32) * 32, 1): ("round_up_to_mul32",),
    _apply_to_numbers(lambda a, b: a // b * b if b > 0 else None, 2): ("round_down",),
    _apply_to_format(tile_bytes): ("tile_size", "TileSize"),
    _apply_to_format(element_bytes): ("datum_size",),
    lambda arguments: arguments[0] if arguments and isinstance(arguments[0], str) else None: (
        "datatype_to_dataformat_converter",
    ),
}
PURE = {name: function for function, names in _PURE.items() for name in names}
"""Known functions by their last name: `tt::div_up`, `std::min`, `tt::tile_size`... `tile_size` of one argument is that
of a 32x32 tile; with a second argument (another tile) the result stays unknown."""
OF_THE_DATA_TYPE = frozenset({"tile_size", "TileSize", "datum_size", "datatype_to_dataformat_converter"})
