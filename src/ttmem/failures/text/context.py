# SPDX-License-Identifier: Apache-2.0
"""The facts around a failure: operation, test, tensors and settings that a log or traceback names.

A failure can be explained without them; with them the answer can name names. The plainest sign of the operation counts:
the runtime's own log line, ttnn's decorator in a traceback, the Python line of a traceback, the outermost call in a
backtrace, the device operation or prim below it, and last the only call that the text mentions. Template arguments name
configurations and types, so they are removed first; a truncated name is ignored.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from math import prod
from typing import NamedTuple

from ttmem.failures.knowledge.tables import load_facts, load_pattern
from ttmem.hardware import BOARDS, DATA_TYPES

_INTERNAL = frozenset({"operations", "device_operation", "decorators", "detail", "core", "graph", "distributed"})
_MOST_NESTED = 40
"""How deep template arguments are removed; deeper than any print of a compiler's."""


def find_operation(text: str, at: int = 0) -> str:
    """The call of ttnn (``ttnn.transformer.x``) that a text is about; ``at`` is where its failure begins. May be empty.

    A backtrace follows its message and a Python traceback precedes it, so each is looked for on that side first.
    """
    before, after = text[:at], text[at:]
    if found := _pattern("executing").findall(text):
        return _translate_dialect(str(found[-1]))
    if found := _pattern("python").findall(text):
        return str(found[-1])
    is_unclear = False
    for lines in (*reversed(_tracebacks(before)), *_tracebacks(after)):
        if (call := _find_in_code(lines)) is not None:
            if call:
                return call
            is_unclear = True
            break
    for kind in (_find_api, _find_device_operation):
        for frames in (*_backtraces(after), *reversed(_backtraces(before))):
            if named := list(filter(None, map(kind, frames))):
                return named[-1] if kind is _find_api else named[0]
    if named := [call for call in map(find_call, _pattern("device").findall(text)) if call]:
        return named[0]
    return _find_in_dialect(text) or ("" if is_unclear else _find_mentioned(text))


def is_frame(line: str) -> bool:
    """True for a line of a C++ backtrace."""
    return " --- " in f" {line}" or bool(_function(line))


def is_traceback_head(line: str) -> bool:
    """True where a Python traceback begins, or pytest's view of a failed test."""
    return "Traceback (most recent call last)" in line or bool(_pattern("traceback_ends").search(line))


def find_family(operation: str, text: str = "") -> str:
    """The kind of operations with the same advice; from the backtrace's device operations where no call is named."""
    names = [operation] if operation else [_snake(name) for name in _pattern("device").findall(text)]
    if not operation:
        names += list(_pattern("prim").findall(text))
    for name in names:
        last = name.rpartition(".")[2].lower()
        for family, expression in _families():
            if expression.search(last):
                return family
    return ""


def places_result(operation: str) -> bool:
    """True when the call writes its result into the memory that the caller chooses, and needs no other large buffer."""
    kinds = load_facts("operations")["placement"]
    is_upload = re.fullmatch(f"ttnn\\.(?:{kinds['uploads']})", operation) is not None
    return is_upload or find_family(operation) in kinds["families"]


def is_without_result(operation: str) -> bool:
    """True when the call makes no tensor: it opens, waits or frees."""
    return re.fullmatch(f"ttnn\\.(?:{load_facts('operations')['placement']['no_result']})", operation) is not None


def find_call(name: str) -> str:
    """``SdpaDecodeDeviceOperation`` or ``sdpa_decode`` as the call of ttnn that runs it; empty where several do."""
    key = _key(re.sub(r"(?:DeviceOperation|Operation|DeviceOp|Op)$", "", name))
    calls, device_operations = _names()
    return device_operations[key] if key in device_operations else calls.get(key, "")


@cache
def _names() -> tuple[dict[str, str], dict[str, str]]:
    """Calls by their last name without underscores, the shortest path first; device operations likewise."""
    data = load_facts("operations")
    calls: dict[str, str] = {}
    for space in sorted(data["calls"], key=lambda space: space.count(".")):
        for name in data["calls"][space].split():
            calls.setdefault(_key(name), f"{space}.{name}")
    return calls, {_key(name): call for name, call in data["device_operations"].items()}


@cache
def _calls() -> frozenset[str]:
    return frozenset(
        f"{space}.{name}" for space, names in load_facts("operations")["calls"].items() for name in names.split()
    )


@cache
def _families() -> list[tuple[str, re.Pattern[str]]]:
    return [(name, re.compile(words)) for name, words in load_facts("operations")["families"].items()]


@cache
def _bookkeeping() -> re.Pattern[str]:
    return _compile_call_words("words")


@cache
def _describing() -> re.Pattern[str]:
    return _compile_call_words("describing")


def _compile_call_words(name: str) -> re.Pattern[str]:
    return re.compile(f"ttnn\\.(?:{load_facts('operations')['bookkeeping'][name]})".replace("\n", ""))


def _key(name: str) -> str:
    return name.replace("_", "").lower()


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class _CodeLine(NamedTuple):
    """A line of code that was running; ``marks`` is what Python drew below it."""

    code: str
    marks: str = ""


def _tracebacks(text: str) -> list[list[_CodeLine]]:
    """The lines of code that Python's or pytest's tracebacks show as running, one list for each traceback."""
    found: list[list[_CodeLine]] = []
    begins, is_running, was_running = True, False, False
    for line in text.split("\n"):
        if is_traceback_head(line):
            begins, is_running, was_running = True, False, False
            continue
        if was_running and _pattern("marks").fullmatch(line):
            found[-1][-1] = found[-1][-1]._replace(marks=line)
        was_running = is_running or bool(_pattern("pytest_running").search(line))
        if was_running:
            if begins:
                found.append([])
                begins = False
            found[-1].append(_CodeLine(line))
        is_running = bool(_pattern("traceback_site").search(line))
    return found


def _find_in_code(lines: Sequence[_CodeLine]) -> str | None:
    """The call of ttnn in the innermost line that has one; empty where that line does not show which of several."""
    for line in reversed(lines):
        calls = [call for call in _calls_in(line.code) if not _describing().fullmatch(call.name)]
        if line.marks and calls:
            # Python marks the expression that failed: the call that begins there; those in its arguments are done.
            start = len(line.marks) - len(line.marks.lstrip())
            calls = [call for call in calls if call.start == start]
            if not calls:
                return ""
        computing = [call.name for call in calls if not _bookkeeping().fullmatch(call.name)]
        if len(computing) > 1:
            return ""
        moving = [call.name for call in calls if not call.is_argument]
        if computing or moving:
            return (computing or moving)[0]
    return None


class _CodeCall(NamedTuple):
    name: str
    start: int
    is_argument: bool


def _calls_in(code: str) -> list[_CodeCall]:
    """The calls of ttnn in a line of code, without those that its comments and strings mention."""
    code = _blank_words(code)
    found = []
    for match in _pattern("call").finditer(code):
        opened = code.count("(", 0, match.start()) - code.count(")", 0, match.start())
        found.append(_CodeCall(f"ttnn.{match[1]}", match.start(), opened > 0))
    return found


def _blank_words(code: str) -> str:
    """The line with blanks instead of its strings and its comment."""
    return _pattern("words").sub(lambda match: " " * len(match[0]), code)


def _find_in_dialect(text: str) -> str:
    """The only operation of the compiler's dialect that a text shows."""
    calls = {_translate_dialect(name) for name in _pattern("dialect").findall(text)}
    computed = {call for call in calls if not _bookkeeping().fullmatch(call)}
    return computed.pop() if len(computed) == 1 else ""


def _translate_dialect(name: str) -> str:
    """An operation of tt-mlir's dialect (``ttnn.slice_static``) as the call of ttnn; itself where there is none."""
    space, _, last = name.rpartition(".")
    if space != "ttnn" or name in _calls():
        return name
    return find_call(last) or name


def _backtraces(text: str) -> list[list[str]]:
    """Names of functions in C++ backtraces without template arguments, innermost first, a list for each backtrace."""
    found: list[list[str]] = []
    begins = True
    for line in text.split("\n"):
        if "ttnn" not in line:
            begins = begins or "backtrace:" in line
            continue
        if "backtrace:" in line:
            begins = True
        if name := _function(line):
            if begins:
                found.append([])
                begins = False
            found[-1].append(name)
    return found


def _function(line: str) -> str:
    """``ttnn::transformer::x`` of a frame, demangled or not; empty where the line is no frame or its name was cut."""
    if registered := _pattern("registered").search(line):
        return registered[1]
    if compiled := _pattern("compiled").search(line):
        return find_call(compiled[1]).replace(".", "::")
    if mangled := _pattern("mangled").search(line):
        return "::".join(_demangle(mangled[1]))
    launched = _pattern("launched").search(line)
    for _ in range(_MOST_NESTED):
        shorter = re.sub(r"<[^<>]*>", "", line)
        if shorter == line:
            break
        line = shorter
    found = _pattern("function").search(line.partition("<")[0])
    name = found[1] if found else ""
    if found and not found[2] and f"ttnn.{name[6:].replace('::', '.')}" not in _calls() and not _is_prim(name):
        return ""  # the line ends within the name, or right after it
    return f"{name}::{launched[1]}" if launched and name else name


def _demangle(text: str) -> Iterator[str]:
    """The parts of a nested name as compilers mangle it: ``4ttnn4prim7softmaxE``."""
    while match := re.match(r"(\d{1,3})([A-Za-z_]\w*)", text):
        size = int(match[1])
        if size > len(match[2]):
            return
        yield match[2][:size]
        text = match[2][size:]


def _is_prim(name: str) -> bool:
    return "::prim::" in name


def _find_api(function: str) -> str:
    spaces = function.split("::")[1:]
    if not spaces or spaces[0] in _INTERNAL or "prim" in spaces or "detail" in spaces:
        return ""
    call = "ttnn." + ".".join(spaces)
    is_newer = spaces[0] in ("experimental", "transformer") and len(spaces) > 1 and spaces[-1].islower()
    return call if call in _calls() or is_newer else ""


def _find_device_operation(function: str) -> str:
    """From ``ttnn::prim::x``, ``ttnn::...::XDeviceOperation::...`` or, in older builds, ``ExecuteX::invoke``."""
    spaces = function.split("::")
    for part in reversed(spaces):
        if re.search(r"(?:Operation|Op)$", part) and (call := find_call(part)):
            return call
    if spaces[-1] == "invoke":
        return find_call(spaces[-2].removeprefix("Execute"))
    return find_call(spaces[spaces.index("prim") + 1]) if "prim" in spaces[:-1] else ""


def _find_mentioned(text: str) -> str:
    """The only computation that a text calls or mentions."""
    code = _pattern("code")
    text = "\n".join(_blank_words(line) if code.search(line) else line for line in text.split("\n"))
    for kind in ("call", "mention"):
        calls = {f"ttnn.{call}" for call in _pattern(kind).findall(text)}
        if kind == "mention":
            calls &= _calls()
        computed = {call for call in calls if not _bookkeeping().fullmatch(call)}
        if computed:
            return computed.pop() if len(computed) == 1 else ""
    return ""


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


_pattern = partial(load_pattern, "context")


@cache
def _board() -> re.Pattern[str]:
    boards = "|".join(re.escape(board.name) for board in BOARDS if board.runs_operations)
    return re.compile(rf"(?<![\w-])({boards})[a-d]?(?![\w-])", re.IGNORECASE)


def read_context(text: str, at: int = 0) -> Context:
    """Read the context in a piece of text; ``at`` is the offset at which the failure begins."""
    operation = find_operation(text, at)
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
        family=find_family(operation, text),
        test=tests[-1].strip() if tests else "",
        settings=settings,
        hints=hints,
        tensors=tuple(dict.fromkeys(_tensors(text)))[:_MOST_TENSORS],
        frames=tuple(dict.fromkeys(frame.strip() for frame in _pattern("frame").findall(text)))[:12],
    )


def _only(words: set[str]) -> str:
    """Return the only word of a kind; two contradict each other and count as none."""
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
