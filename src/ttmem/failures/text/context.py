# SPDX-License-Identifier: Apache-2.0
"""What stands around a failure: the operation, the test, the tensors and the settings that a log or traceback names.

Nothing of it is needed to explain a failure; where it is there, the answer can name names.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from math import prod

from ttmem.failures.facts import pattern
from ttmem.failures.text.operations import family_of, operation_in
from ttmem.hardware import BOARDS, DATA_TYPES

_MOST_TENSORS = 192
_LARGEST_DIMENSION = 1 << 32
_FEWEST_ELEMENTS = 4096
"""Of a shape in a person's words: smaller ones are coordinates, kernels and strides."""


@dataclass(frozen=True, slots=True)
class KnownTensor:
    """A tensor that the text or the profile names near the failure."""

    shape: tuple[int, ...]
    dtype: str
    layout: str = ""
    """Empty: not said; both are tried."""
    name: str = ""
    has_dtype: bool = True
    """Whether the data type is known; else it is one of several that are tried."""


@dataclass(frozen=True, slots=True)
class Context:
    """The named things near one failure; empty where the text names none."""

    operation: str = ""
    """The user's call, ``ttnn.conv2d``: see ``operations``."""
    family: str = ""
    """The kind of operations with the same advice: ``conv``, ``attention``; also where several calls fit."""
    test: str = ""
    """The node id of the pytest that failed."""
    settings: dict[str, int] = field(default_factory=dict, hash=False)
    """``l1_small_size``, ``trace_region_size``, ``worker_l1_size`` as the text says they were set."""
    hints: dict[str, str] = field(default_factory=dict, hash=False)
    """``board``, ``architecture``, ``release``, ``phase``, ``compiler``, ``sweep_status`` or
    ``place``, where they are named."""
    tensors: tuple[KnownTensor, ...] = ()
    frames: tuple[str, ...] = ()
    """Functions of the backtrace, innermost first, without paths and addresses."""


_pattern = partial(pattern, "context")


@cache
def _board() -> re.Pattern[str]:
    boards = "|".join(re.escape(board.name) for board in BOARDS if board.runs_operations)
    return re.compile(rf"(?<![\w-])({boards})[a-d]?(?![\w-])", re.IGNORECASE)


def read_context(text: str, at: int = 0) -> Context:
    """What a piece of text around a failure names; ``at`` is where in it the failure begins."""
    operation = operation_in(text, at)
    tests = _pattern("failed").findall(text)
    settings = {name: int(value) for name, value in _pattern("setting").findall(text)}
    hints: dict[str, str] = {}
    if found := _only({match.lower().removesuffix("_b0") for match in _pattern("architecture").findall(text)}):
        hints["architecture"] = found
    if found := _only({match.lower() for match in _board().findall(text)}):
        hints["board"] = BOARDS.find(found).name
    if _pattern("training").search(text) or re.search(r"_bw$|backward", operation):
        hints["phase"] = "training"
    if _pattern("compiler").search(text):
        hints["compiler"] = "named"
    if _pattern("sweep").search(text):
        hints["sweep_status"] = "FAIL_L1_OUT_OF_MEM"
    return Context(
        operation=operation,
        family=family_of(operation, text),
        test=tests[-1].strip() if tests else "",
        settings=settings,
        hints=hints,
        tensors=tuple(dict.fromkeys(_tensors(text)))[:_MOST_TENSORS],
        frames=tuple(dict.fromkeys(frame.strip() for frame in _pattern("frame").findall(text)))[:12],
    )


def _only(words: set[str]) -> str:
    """A word that stands alone; two of a kind contradict each other and say nothing."""
    return words.pop() if len(words) == 1 else ""


def _tensors(text: str) -> Iterator[KnownTensor]:
    named = [
        (_sizes(shape), dtype.lower(), layout.lower())
        for shape, dtype, layout in _pattern("python_tensor").findall(text)
    ]
    for dimensions, element, tile in _pattern("mlir_tensor").findall(text):
        named.append((tuple(dimensions.strip("x").split("x")), tile or element, "tile" if tile else ""))
    for element, dimensions in _pattern("xla_tensor").findall(text):
        named.append((_sizes(dimensions), re.sub(r"^s(?=\d)", "si", element), ""))
    seen = {sizes for sizes, _, _ in named}
    for match in _pattern("plain_shape").findall(text):
        sizes = _sizes("".join(match))
        if sizes not in seen and prod(map(int, sizes)) >= _FEWEST_ELEMENTS:
            named.append((sizes, "", ""))
            seen.add(sizes)
    for sizes, dtype, layout in named:
        shape = tuple(map(int, sizes))
        known = DATA_TYPES.get(dtype) if dtype else None
        if all(0 < size < _LARGEST_DIMENSION for size in shape) and (known is not None or not dtype):
            names = [known.name] if known is not None else ["bfloat16", "float32", "bfloat8_b"]
            yield from (KnownTensor(shape, name, layout, has_dtype=known is not None) for name in names)


def _sizes(shape: str) -> tuple[str, ...]:
    """The dimensions without their padding."""
    return tuple(re.findall(r"\d+", re.sub(r"\s*\+\s*\d+|(?<=\d)\[\d+\]", "", shape)))
