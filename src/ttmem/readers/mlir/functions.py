# SPDX-License-Identifier: Apache-2.0
"""The functions of TTNN modules: what they take, and their operations in order.

The text is what the compiler prints, or what somebody wrote by hand: statements over several lines, comments and names
of one's own are read too. Operations and types are those of ``_operation`` and ``_types``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.base.limits import LAYOUT_BYTES
from ttmem.readers.mlir.module_dump import (
    MODULE_NAME,
    STAGE_END_MARKS,
    STAGE_MARK,
    parse_argument,
    resolve_layout,
    split_arguments,
)
from ttmem.readers.mlir.syntax import hide_escapes, parse_operation, parse_properties, read_location, split_signature

_STATEMENT = re.compile(
    rb'\s*(?:%\w+(?::\d+)?(?:, %\w+)* = |"[\w.]+"\(|func\.|call\b|return\b|ttcore\.|ttnn\.|#\w+ += )'
)
_FUNCTION = re.compile(rb"\s*func\.func (?:(public|private|nested) )?@\"?([\w.$-]+)\"?\(")
_ALIAS = re.compile(rb"\s*#(\w+) += (.*)", re.DOTALL)
_SEVERAL_RESULTS = re.compile(rb"\s*((?:%\w+, )+%\w+) = ")
_RETURN = re.compile(rb"\s*(?:func\.)?return\b")
_SSA = re.compile(rb"%\w+(?:#\d+)?")
_TEXTS = re.compile(rb'"[^"]*"')
_COMMENT = re.compile(rb"(?<!:)//.*")
_PROPERTIES = re.compile(rb"\)\s+(?:<\{|\{)")
_GENERIC = re.compile(rb'\s*(?:%[^=]* = )?"')
_FUNCTION_TYPE = re.compile(rb'function_type = "(\w+)"|attributes \{(const_eval)')
_LOCATION_ALIAS = re.compile(rb"#(loc\d*)\b")
_LOCATION_AT_END = re.compile(rb"loc\(#(loc\d*)\)\s*$")
_GRID = re.compile(rb"arch = <(\w+)>, grid = (\d{1,4})x(\d{1,4})")
_MESH = re.compile(rb'<"[^"]*" = (\d{1,4})x(\d{1,4})')
_TTNN_STAGES = (b"ttnn", b"ttnn_runtime")
_MOST_LINES = 100_000
"""Of one statement: a printed constant may be long, a bracket that is never closed is not."""
_CUT = "the module is cut: dump it again"
_SPLIT = re.compile(rb"^// -----\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FunctionArgument:
    """An argument of a function."""

    value: str
    """``%arg0``."""
    type_text: bytes
    """With its layout written out."""
    kind: str
    """``parameter``, ``constant``, ``input`` or ``unknown``."""
    name: str
    local_type: bytes
    """What one chip has of it, where the module says so."""
    is_cache: bool


@dataclass(frozen=True)
class ModuleOperation:
    """An operation in a function's body."""

    name: str
    """``ttnn.add``, ``ttcore.load_cached``, ``func.call``."""
    results: tuple[str, ...]
    operands: tuple[str, ...]
    operand_types: tuple[bytes, ...]
    result_types: tuple[bytes, ...]
    callee: str
    location: str
    line: int
    written: bytes
    """Its properties as they were written."""
    aliases: Mapping[bytes, bytes] = field(repr=False, default_factory=dict)

    @property
    def is_ttnn(self) -> bool:
        """True for an operation of the dialect that runs."""
        return self.name.startswith("ttnn.")

    @cached_property
    def properties(self) -> dict[str, Any]:
        """The properties by name, as plain values."""
        return parse_properties(self.written, self.aliases)


@dataclass(frozen=True, slots=True)
class ModuleFunction:
    """A function, and its operations in order."""

    name: str
    arguments: tuple[FunctionArgument, ...]
    operations: list[ModuleOperation]
    returned: list[str]
    """Values, filled when its body ends."""
    kind: str
    """The compiler's purpose for it, if printed: ``const_eval``, ``forward_device``, ``trace_main``, ..."""
    is_private: bool
    line: int


@dataclass(frozen=True)
class ModuleText:
    """A module."""

    name: str
    functions: dict[str, ModuleFunction]
    architecture: str = ""
    """``wormhole_b0``, ``blackhole``; empty when the module does not say what it was compiled for."""
    grid: tuple[int, int] | None = None
    """Rows and columns of cores."""
    mesh: tuple[int, int] | None = None

    @property
    def operations(self) -> int:
        """Number of operations in all functions."""
        return sum(len(function.operations) for function in self.functions.values())

    @property
    def is_ttnn(self) -> bool:
        """True for the stage that runs: earlier ones have operations of other dialects."""
        return any(one.is_ttnn for function in self.functions.values() for one in function.operations)

    @property
    def entries(self) -> list[ModuleFunction]:
        """The functions with operations that no other one calls."""
        called = {
            name
            for function in self.functions.values()
            for operation in function.operations
            for name in (operation.callee, *_callees(operation))
        }
        found = [one for one in self.functions.values() if one.name not in called and one.operations]
        running = [one for one in found if any(operation.is_ttnn for operation in one.operations)] or found
        public = [one for one in running if not one.is_private and one.kind in ("", "forward_device", "forward")]
        return public or running


def _callees(operation: ModuleOperation) -> Iterator[str]:
    if b"callee" in operation.written:
        yield from (str(value) for name, value in operation.properties.items() if name.endswith("callee"))


def read_modules(text: bytes, where: str = "module") -> list[ModuleText]:
    """The TTNN modules of a text; of a log, those of its ``ttnn`` stages. BadInputError when there is none."""
    pieces = list(_pieces(text))
    read = [_read(piece, line, where) for line, piece in pieces]
    modules = [module for module in read if module.is_ttnn]
    if not modules:
        for module in read:
            _refuse_calls_alone(module, where)
        raise BadInputError(
            "no TTNN module here: no function with operations of the ttnn dialect",
            where=where,
            hint="compile with export_path, or with TTXLA_LOGGER_LEVEL=DEBUG, and give the ttnn stage",
        )
    return modules


def _refuse_calls_alone(module: ModuleText, where: str) -> None:
    """Say why nothing runs where functions do nothing but call functions."""
    operations = [operation for function in module.functions.values() for operation in function.operations]
    if not operations or not all(operation.callee for operation in operations):
        return
    for operation in operations:
        if operation.callee not in module.functions:
            told = f"calls the function '{operation.callee}', which is not in the text"
            raise BadInputError(told, where=f"{where}:{operation.line}", hint="dump the whole module")
    told = "the functions of the module only call each other, without an operation of their own"
    raise BadInputError(told, where=f"{where}:{operations[0].line}", hint="dump the whole module")


def _pieces(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Modules with the number of the line before them."""
    stages = [(found.start(), found[1]) for found in STAGE_MARK.finditer(text)]
    if not stages:
        begin = line = 0
        for end, next_begin in [*(found.span() for found in _SPLIT.finditer(text)), (len(text), len(text))]:
            yield line, text[begin:end]
            line += text.count(b"\n", begin, next_begin)
            begin = next_begin
        return
    line = counted = 0
    for (begin, stage), (end, following) in zip(stages, [*stages[1:], (len(text), b"")], strict=True):
        if stage in _TTNN_STAGES and not (stage == b"ttnn" and following == b"ttnn_runtime"):
            cuts = (text.find(mark, begin, end) for mark in STAGE_END_MARKS)
            end = min((cut for cut in cuts if cut >= 0), default=end)
            begin = text.find(b"\n", begin, end) + 1 or end
            line, counted = line + text.count(b"\n", counted, begin), begin
            yield line, text[begin:end]


def _read(text: bytes, first_line: int, where: str) -> ModuleText:
    aliases: dict[bytes, bytes] = {}
    functions: dict[str, ModuleFunction] = {}
    name = MODULE_NAME.search(text)
    statements = list(_statements(text, first_line, where))
    for _, statement in statements:  # first: locations follow the module
        if alias := _ALIAS.match(statement):
            aliases[alias[1]] = alias[2][: LAYOUT_BYTES * 16].strip()
    resolve = cache(
        lambda type_text: resolve_layout(type_text.strip(), aliases)
    )  # a few types, thousands of operations
    current: ModuleFunction | None = None
    for line, statement in statements:
        if function := _FUNCTION.match(statement):
            current = _function(statement, function, resolve, line)
            functions[current.name] = current
        elif current is None or _ALIAS.match(statement):
            continue
        elif _RETURN.match(statement):
            current.returned[:] = [_text(value) for value in _SSA.findall(statement.split(b" : ")[0])]
            current = None
        elif (operation := _operation(statement, resolve, aliases, line)) is not None:
            current.operations.append(operation)
    if current is not None and current.operations and not _is_closed(text, current.operations[-1].line - first_line):
        raise BadInputError(f"the text ends inside @{current.name}", where=f"{where}:{current.line}", hint=_CUT)
    described = _GRID.search(text)
    mesh = _MESH.search(text)
    return ModuleText(
        name[1].decode("utf-8", "replace") if name else "module",
        {one.name: one for one in functions.values() if one.kind != "forward_cpu"},
        described[1].decode() if described else "",
        (int(described[2]), int(described[3])) if described else None,
        (int(mesh[1]), int(mesh[2])) if mesh else None,
    )


def _is_closed(text: bytes, lines: int) -> bool:
    """True when a bracket closes a function after this number of lines: an excerpt may lack its return."""
    return any(line.lstrip().startswith(b"}") for line in text.split(b"\n")[lines:])


def _statements(text: bytes, first_line: int, where: str) -> Iterator[tuple[int, bytes]]:
    """Whole statements with their line: a line, or as many as its brackets need."""
    held: list[bytes] = []
    depth, begin, needs_types, is_alias = 0, 0, False, False
    for number, line in enumerate(text.split(b"\n"), first_line + 1):
        if b"//" in line:
            line = _strip_comment(line)
        if held and is_alias and (_STATEMENT.match(line) or line.startswith(b"module")):
            yield begin, b" ".join(held)  # an alias that is not closed ends here all the same
            held = []
        if not held:
            if not _STATEMENT.match(line):
                continue
            begin, depth, needs_types = number, 0, bool(_GENERIC.match(line))
            is_alias = _ALIAS.match(line) is not None
        held.append(line.strip() if held else line)
        depth += _open_brackets(line, angled=is_alias)
        needs_types = needs_types and b"->" not in line
        if depth <= 0 and not needs_types:
            yield begin, b" ".join(held)
            held = []
        elif len(held) > _MOST_LINES:
            break
    if held and is_alias:
        yield begin, b" ".join(held)
    elif held:
        raise BadInputError(
            "the statement that begins here is not closed",
            where=f"{where}:{begin}",
            hint=_CUT,
        )


def _strip_comment(line: bytes) -> bytes:
    if b'"' not in line:
        return _COMMENT.sub(b"", line)
    hidden = _TEXTS.sub(lambda found: b"_" * len(found[0]), hide_escapes(line))
    comment = hidden.find(b"//")
    return line if comment < 0 else line[:comment]


def _open_brackets(line: bytes, *, angled: bool) -> int:
    """Count round brackets that stay open; others are always inside such ones, except in aliases."""
    plain = _TEXTS.sub(b"", hide_escapes(line)) if b'"' in line else line
    still_open = plain.count(b"(") - plain.count(b")")
    return still_open + plain.count(b"<") - plain.count(b">") + plain.count(b"->") if angled else still_open


def _function(statement: bytes, found: re.Match[bytes], resolve: Callable[[bytes], bytes], line: int) -> ModuleFunction:
    arguments = []
    for text in split_arguments(statement, found.end()):
        value, colon, _ = text.strip().partition(b": ")
        if not colon or not value.startswith(b"%"):
            continue
        type_text, kind, name, local, is_cache = parse_argument(text)
        arguments.append(FunctionArgument(_text(value), resolve(type_text), kind, name, local, is_cache))
    declared = _FUNCTION_TYPE.search(statement, found.end())
    said = (declared[1] or declared[2]).decode() if declared else ""
    if not said and b"ttir.cpu_hoisted" in statement:
        said = "forward_cpu"
    return ModuleFunction(
        found[2].decode("utf-8", "replace"), tuple(arguments), [], [], said, found[1] == b"private", line
    )


def _operation(
    statement: bytes, resolve: Callable[[bytes], bytes], aliases: Mapping[bytes, bytes], line: int
) -> ModuleOperation | None:
    several = _SEVERAL_RESULTS.match(statement)  # the compiler writes %5:2, people name each
    parsed = parse_operation(statement[several.end() :] if several else statement.strip())
    if parsed is None:
        return None
    results, _, operands = parsed.values.partition(b"=")
    if several:
        results = several[1].replace(b",", b"")
    operand_types, result_types = split_signature(parsed.types) if parsed.types else ([], [])
    begin = _PROPERTIES.search(statement)
    types_at = statement.rfind(b" : (")
    written = statement[begin.end() : types_at if types_at > begin.end() else None] if begin else b""
    return ModuleOperation(
        parsed.name.decode("utf-8", "replace"),
        tuple(_texts(results)),
        tuple(_texts(operands)),
        tuple(map(resolve, operand_types)),
        tuple(map(resolve, result_types)),
        parsed.callee.decode("utf-8", "replace"),
        _location(statement, parsed.location, aliases),
        line,
        written,
        aliases,
    )


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _texts(values: bytes) -> Sequence[str]:
    return [_text(value) for value in values.split()]


def _location(statement: bytes, found: bytes, aliases: Mapping[bytes, bytes]) -> str:
    alias = _LOCATION_AT_END.search(statement)
    if alias and alias[1] in aliases:
        found = read_location(aliases[alias[1]].removeprefix(b"loc("))
        inner = _LOCATION_ALIAS.search(aliases[alias[1]])
        if not found and inner and inner[1] in aliases:
            found = read_location(aliases[inner[1]].removeprefix(b"loc("))
    return found.decode("utf-8", "replace")
