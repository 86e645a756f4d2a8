# SPDX-License-Identifier: Apache-2.0
"""What stands around a failure: the operation, the test, the tensors and the settings that a log or traceback names.

Nothing of it is needed to explain a failure; where it is there, the answer can name names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from ttmem.hardware import BOARDS, DATA_TYPES

_MOST_TENSORS = 64
_LARGEST_DIMENSION = 1 << 32


@dataclass(frozen=True, slots=True)
class KnownTensor:
    """A tensor that the text or the profile names near the failure."""

    shape: tuple[int, ...]
    dtype: str
    layout: str = ""
    """Empty: not said; both are tried."""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """The named things near one failure; empty where the text names none."""

    operation: str = ""
    """``ttnn.conv2d``: from the runtime's log line, the traceback, or the device operation of the backtrace."""
    test: str = ""
    """The node id of the pytest that failed."""
    settings: dict[str, int] = field(default_factory=dict, hash=False)
    """``l1_small_size``, ``trace_region_size``, ``worker_l1_size`` as the text says they were set."""
    hints: dict[str, str] = field(default_factory=dict, hash=False)
    """``board``, ``architecture``, ``release``, ``sweep_status`` or ``place`` of the failure, where they are named."""
    tensors: tuple[KnownTensor, ...] = ()
    frames: tuple[str, ...] = ()
    """Functions of the backtrace, innermost first, without paths and addresses."""


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    boards = "|".join(re.escape(board.name) for board in BOARDS if board.runs_operations)
    return {
        "executing": re.compile(r"Executing operation: (?:[^\n\"]{0,400}= )?\"?(ttnn\.\w+|ttcore\.\w+|ttir\.\w+)"),
        "python": re.compile(r"python_fully_qualified_name=['\"](ttnn\.[\w.]+)"),
        "prim": re.compile(r"ttnn::prim::(?:detail::)?(\w+)"),
        "device": re.compile(r"\b(\w+?)DeviceOperation\b"),
        "qualified": re.compile(r"\bttnn::(?:operations::)?(?:\w+::)*(\w+)\("),
        "call": re.compile(r"\bttnn\.(?!Tensor|Shape|bfloat|float|uint|int|TILE|ROW|DRAM|L1)([a-z]\w+)\("),
        "failed": re.compile(r"(?:FAILED|ERROR) ([\w./-]+\.py::[^\n]+?)(?= - |\n|$)"),
        "setting": re.compile(r"(l1_small_size|trace_region_size|worker_l1_size)['\"]?\s*[=:]\s*(\d{1,12})"),
        "sweep": re.compile(r"\bFAIL_L1_OUT_OF_MEM\b|\bfail_l1_out_of_mem\b"),
        "architecture": re.compile(r"\b(wormhole_b0|wormhole|blackhole|grayskull)\b", re.IGNORECASE),
        "board": re.compile(rf"(?<![\w-])({boards})[a-d]?(?![\w-])", re.IGNORECASE),
        "python_tensor": re.compile(
            r"shape=(?:ttnn\.)?Shape\(\[([\d, ]*)\]\)(?:, dtype=DataType[:.]+(\w+))?(?:, layout=Layout[:.]+(\w+))?"
        ),
        "mlir_tensor": re.compile(r"tensor<((?:\d+x)+)([a-z]\w*)(?:, #ttnn[\w.]*<[^\n]{0,160}?tile<\d+x\d+, (\w+)>)?"),
        "frame": re.compile(r"^(?:E )? *--- (?:\S+\()?([A-Za-z_~][\w:<>,~ ]{2,120}?)(?:\(|\+|$)", re.MULTILINE),
    }


def read_context(text: str) -> Context:
    """What a piece of text around a failure names; the last mention of an operation before the end counts."""
    patterns = _patterns()
    tests = patterns["failed"].findall(text)
    settings = {name: int(value) for name, value in patterns["setting"].findall(text)}
    hints: dict[str, str] = {}
    if found := _only({match.lower().removesuffix("_b0") for match in patterns["architecture"].findall(text)}):
        hints["architecture"] = found
    if found := _only({match.lower() for match in patterns["board"].findall(text)}):
        hints["board"] = BOARDS.find(found).name
    if patterns["sweep"].search(text):
        hints["sweep_status"] = "FAIL_L1_OUT_OF_MEM"
    return Context(
        operation=_operation(text),
        test=tests[-1].strip() if tests else "",
        settings=settings,
        hints=hints,
        tensors=tuple(dict.fromkeys(_tensors(text)))[:_MOST_TENSORS],
        frames=tuple(dict.fromkeys(frame.strip() for frame in patterns["frame"].findall(text)))[:12],
    )


def _only(words: set[str]) -> str:
    """A word that stands alone; two of a kind contradict each other and say nothing."""
    return words.pop() if len(words) == 1 else ""


def _operation(text: str) -> str:
    patterns = _patterns()
    if found := patterns["executing"].findall(text):
        return str(found[-1])
    if found := patterns["python"].findall(text):
        return str(found[-1])
    for kind in ("prim", "device"):
        if found := patterns[kind].findall(text):
            return f"ttnn.{_snake(found[0])}"
    if found := patterns["call"].findall(text):
        return f"ttnn.{found[-1]}"
    return ""


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _tensors(text: str) -> Iterator[KnownTensor]:
    patterns = _patterns()
    for shape, dtype, layout in patterns["python_tensor"].findall(text):
        sizes = tuple(int(size) for size in shape.replace(" ", "").split(",") if size)
        yield from _known(sizes, dtype.lower(), layout.lower())
    for dimensions, element, tile in patterns["mlir_tensor"].findall(text):
        sizes = tuple(int(size) for size in dimensions.split("x") if size)
        yield from _known(sizes, tile or element, "tile" if tile else "")


def _known(shape: tuple[int, ...], dtype: str, layout: str) -> Iterator[KnownTensor]:
    known = DATA_TYPES.get(dtype) if dtype else None
    if all(0 < size < _LARGEST_DIMENSION for size in shape) and (known is not None or not dtype):
        names = [known.name] if known is not None else ["bfloat16", "float32", "bfloat8_b"]
        yield from (KnownTensor(shape, name, layout) for name in names)
