# SPDX-License-Identifier: Apache-2.0
"""How much of a size the source says: a number, a number per data type, an expression, alternatives, or nothing."""

from __future__ import annotations

import re

from ttmem.circular_buffers.scan.cpp.arithmetic import OF_THE_DATA_TYPE
from ttmem.circular_buffers.scan.cpp.expressions import (
    CALL,
    LOOP,
    OPAQUE,
    STRICT_LEAVES,
    Call,
    Choice,
    Enumerator,
    Expression,
    Symbol,
    evaluate,
    every_node,
)
from ttmem.circular_buffers.scan.model import ADAPTIVE, FIXED, UNKNOWN

CONSTANT, PER_DTYPE, SYMBOLIC, PIECEWISE, UNREADABLE = "constant", "per-dtype", "symbolic", "piecewise", "opaque"
CLASSES = (CONSTANT, PER_DTYPE, SYMBOLIC, PIECEWISE, UNREADABLE)
_DTYPE_LEAF = re.compile(
    r"(?:element_size|datum_size|get_tile_size|tile_size|dtype|data_?format)\w*\(?.*\)?$", re.IGNORECASE
)
_STRATEGIES = {CONSTANT: FIXED, PER_DTYPE: FIXED, SYMBOLIC: ADAPTIVE, PIECEWISE: ADAPTIVE, UNREADABLE: UNKNOWN}


def size_class(total: Expression | None) -> str:
    """Of a size in bytes."""
    if total is None:
        return UNREADABLE
    if evaluate(total) is not None:
        return CONSTANT
    nodes = list(every_node(total, stop=_is_of_the_data_type))
    unknown = [node for node in nodes if isinstance(node, Symbol) and not _names_a_data_type(node)]
    if any(node.kind == OPAQUE for node in unknown):
        return UNREADABLE
    if any(isinstance(node, Choice) for node in nodes) or any(node.kind == LOOP for node in unknown):
        return PIECEWISE
    if unknown or any(isinstance(node, Call) and node.function in ("min", "max") for node in nodes):
        return SYMBOLIC
    known = any(_is_of_the_data_type(node) or isinstance(node, (Symbol, Enumerator)) for node in nodes)
    return PER_DTYPE if known else UNREADABLE


def strategy(kind: str) -> str:
    """A depth that the workload cannot change is fixed, whatever the data type makes of it in bytes."""
    return _STRATEGIES[kind]


def has_strict_leaves(total: Expression | None) -> bool:
    """Whether all unknowns are parameters, members, getters or names."""
    if total is None:
        return False
    nodes = every_node(total)
    return (
        all(node.kind in STRICT_LEAVES for node in nodes if isinstance(node, Symbol))
        and size_class(total) != UNREADABLE
    )


def _is_of_the_data_type(node: Expression) -> bool:
    return isinstance(node, Call) and node.function in OF_THE_DATA_TYPE


def _names_a_data_type(node: Symbol) -> bool:
    if node.kind in (LOOP, OPAQUE):
        return False
    last = re.split(r"->|\.|::", node.text.split("(")[0])[-1]
    return (
        bool(_DTYPE_LEAF.match(last)) if node.kind != CALL else last in ("get_tile_size", "element_size", "datum_size")
    )
