# SPDX-License-Identifier: Apache-2.0
"""Module dumps: the arguments of a compiled graph, from the log or from a stand-alone .mlir file
(tt-xla's ``export_path`` writes them).

The compiler prints seven to nine stages per graph and one set per graph; the argument list (one line, hundreds of
KB for a large model) is the registry of weights. Only the latest annotated stage of a graph counts, because stages
rename element types on the way down.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from math import prod
from pathlib import Path
from typing import NamedTuple

from ttmem.base.errors import BadInputError
from ttmem.base.limits import LAYOUT_BYTES
from ttmem.profile.model import GraphArgument, Profile, Source
from ttmem.profile.tables import ProfileTables
from ttmem.profile.tensor_type import HOST, TensorType
from ttmem.readers.byte_source import OpenedSource, TruncatedSourceError
from ttmem.readers.mlir import KIND
from ttmem.readers.mlir.syntax import hide_escapes, parse_tensor_type, unescape
from ttmem.readers.registry import ReadOptions
from ttmem.readers.wrappings import LineSplitter

STAGE_MARK = re.compile(rb"MLIR Module (\w+):")
MODULE_NAME = re.compile(rb"\bmodule @\"?([\w.$-]+)")
_FUNCTION = re.compile(rb"func\.func (?:(public|private|nested) )?@\"?([\w.$-]+)\"?\(")
_ALIAS = re.compile(rb"#(\w+) = (#ttnn\.\w+<.*)")
_BRACKET = re.compile(rb'"[^"]*"|->|[()<>{}\[\],]')
_LAYOUT_ALIAS = re.compile(rb"tensor<(?:[^,<>#]|<[^<>#]*>){0,256}, #(\w+)>")
_BUFFER_ALIAS = re.compile(rb"memref<[^#<]*(?:<[^#<>]*>)?, #(\w+)>")
_KIND = re.compile(rb"argument_type<(\w+)>")
_NAME = re.compile(rb'ttir\.name = "([^"]*)"')
_LOCATION = re.compile(rb'loc\("([^"]*)"')
_LOCAL_SHAPE = re.compile(rb"local_shape = (tensor<[^<>]*(?:<[^<>]*>)?>)")
STAGE_END_MARKS = (b"END OF MLIR MODULE", b"// IR Dump ")
_CALLED = re.compile(rb"_const_eval_\d|^cpu_hoisted_|trace_\d+_")
"""Names of functions that the compiler splits off an entry (log-formats 3.2, 3.3)."""
_CALLED_ATTRIBUTE = re.compile(rb'\battributes \{[^{}]*(?:\bconst_eval\b|function_type = "(?!forward_device))')

_STAGES = b"vhlo shlo shlo_frontend shlo_compiler shlo_set_mesh_attr shlo_compiler_cleaned ttir ttnn ttnn_runtime"
_STAGE_ORDER = {name: i for i, name in enumerate(_STAGES.split())}
"""In the order the compiler prints them; from shlo_frontend on the arguments are annotated."""
STAGE, STAGE_END, MODULE, ALIAS, FUNCTION = range(5)


class ModuleItem(NamedTuple):
    """A contribution of one line of a module dump to the list of arguments."""

    what: int
    """A dump of a stage begins; it is over, or a pass's dump begins, and what follows is no stage until the next one
    begins; the module's name, which carries the graph's number; ``#ttnn_layout3 = #ttnn.ttnn_layout<...>``, because
    types refer to layouts by such names in dumps; a function's signature."""
    name: bytes = b""
    text: bytes = b""
    """The value of an alias."""
    arguments: tuple[tuple[bytes, str, str, bytes, bool], ...] = ()
    """(type text, kind, name, local type text, is KV cache) of an entry's arguments; none for functions that are
    declared private, or that the compiler split off an entry."""


def parse_module_line(line: bytes) -> ModuleItem | None:
    """Parse a line of a module dump; None for operations and everything else that names no argument."""
    function = _FUNCTION.search(line)
    if function:
        if function[1] == b"private" or _is_called(line, function):
            return ModuleItem(FUNCTION, function[2])
        arguments = tuple(map(parse_argument, split_arguments(line, function.end())))
        return ModuleItem(FUNCTION, function[2], arguments=arguments)
    if stage := STAGE_MARK.search(line):
        return ModuleItem(STAGE, stage[1])
    if any(mark in line for mark in STAGE_END_MARKS):
        return ModuleItem(STAGE_END)
    if alias := _ALIAS.match(line):
        return ModuleItem(ALIAS, alias[1], alias[2][:LAYOUT_BYTES])
    name = MODULE_NAME.search(line)
    return ModuleItem(MODULE, name[1]) if name else None


def _is_called(line: bytes, function: re.Match[bytes]) -> bool:
    """True when only the entry calls it: its arguments are copies of the entry's, annotations included."""
    return bool(_CALLED.search(function[2]) or _CALLED_ATTRIBUTE.search(line, max(function.end(), len(line) - 400)))


def split_arguments(line: bytes, start: int) -> Iterator[bytes]:
    """The arguments of a signature; attributes hold commas, braces and quoted brackets, so depth decides."""
    depth = 0
    begin = start
    for token in _BRACKET.finditer(hide_escapes(line), start):
        mark = token[0]
        if mark == b"," and depth == 0:
            yield line[begin : token.start()]
            begin = token.end()
        elif mark in (b"(", b"<", b"{", b"["):
            depth += 1
        elif mark in (b")", b">", b"}", b"]"):
            if depth == 0:
                if line[begin : token.start()].strip():
                    yield line[begin : token.start()]
                return
            depth -= 1
    if line[begin:].strip():  # a cut signature still tells the arguments before the cut
        yield line[begin:]


def parse_argument(text: bytes) -> tuple[bytes, str, str, bytes, bool]:
    _, _, rest = text.strip().partition(b": ")
    kind = _KIND.search(rest)
    plain = hide_escapes(rest)
    name = _NAME.search(plain) or _LOCATION.search(plain)
    local = _LOCAL_SHAPE.search(rest)
    return (
        rest[: rest.index(b" {")] if b" {" in rest else rest.partition(b" loc(")[0],
        kind[1].decode() if kind else "unknown",
        unescape(rest[name.start(1) : name.end(1)]).decode("utf-8", "replace") if name else "",
        local[1] if local else b"",
        b"ttcore.kv_cache" in rest or b"tt.kv_cache" in rest,
    )


def collect_arguments(items: Iterable[ModuleItem]) -> list[GraphArgument]:
    """The arguments of every graph, each graph from its latest annotated stage."""
    items = list(items)
    has_stages = any(item.what == STAGE for item in items)
    arguments: list[GraphArgument] = []
    best: tuple[int, dict[bytes, list[GraphArgument]]] = (-1, {})
    in_stage = True
    graph_name = "graph"
    graph_number = 0
    order = -1
    aliases: dict[bytes, bytes] = {}
    for item in items:
        if item.what == STAGE:
            new_order = _STAGE_ORDER.get(item.name, order)
            if new_order <= order:  # the sequence starts again: the next graph
                arguments += chain.from_iterable(best[1].values())
                best = (-1, {})
                graph_number += 1
            order = new_order
            in_stage = True
            aliases = {}
        elif item.what == STAGE_END:
            in_stage = not has_stages  # a file of its own may hold the dump of a single pass
        elif not in_stage:
            continue
        elif item.what == MODULE:
            graph_name = item.name.decode("utf-8", "replace")
        elif item.what == ALIAS:
            aliases[item.name] = item.text
        elif any(kind != "unknown" or name for _, kind, name, _, _ in item.arguments):
            found = list(_arguments(item, f"{graph_name}#{graph_number}", aliases))
            annotated = any(argument.kind != "unknown" for argument in found)
            rank = order + 1 + (100 if annotated else 0)
            if rank == best[0]:  # another entry of the same module
                best[1][item.name] = found
            elif rank > best[0]:
                best = (rank, {item.name: found})
    return [*arguments, *chain.from_iterable(best[1].values())]


def _arguments(function: ModuleItem, graph: str, aliases: dict[bytes, bytes]) -> Iterator[GraphArgument]:
    for position, (type_text, kind, name, local, kv_cache) in enumerate(function.arguments):
        full = parse_tensor_type(resolve_layout(type_text, aliases))
        if full is None:
            continue
        on_chip = _select_on_chip(full, parse_tensor_type(local) if local else None)
        yield GraphArgument(
            graph=graph,
            position=position,
            name=name or f"%arg{position}",
            shape=(on_chip or full).shape,
            dtype=full.dtype,
            kind=kind if kind != "default" else "unknown",
            bytes=_count_chip_bytes(full, on_chip),
            on_device=None if not full.memory else full.memory != HOST,
            kv_cache=kv_cache,
        )


def _select_on_chip(full: TensorType, on_chip: TensorType | None) -> TensorType | None:
    """Return the part of a tensor on one chip, where both types agree: passes rewrite types and leave annotations."""
    if on_chip is None or not (elements := prod(on_chip.shape)) or prod(full.shape) % elements:
        return None
    return on_chip


def _count_chip_bytes(full: TensorType, on_chip: TensorType | None) -> int:
    """The local shape is printed with the element type; what an element takes follows from how it is stored."""
    if on_chip is None:
        return full.logical_bytes
    elements, local_elements = prod(full.shape), prod(on_chip.shape)
    return full.logical_bytes * local_elements // elements if elements else 0


def resolve_layout(type_text: bytes, aliases: Mapping[bytes, bytes]) -> bytes:
    """The type with its layout written out, as operation lines print it."""
    alias = _LAYOUT_ALIAS.match(type_text)
    if not alias or alias[1] not in aliases:
        return type_text
    layout = aliases[alias[1]]
    buffer = _BUFFER_ALIAS.search(layout)
    if buffer and buffer[1] in aliases:
        layout = layout.replace(b"#" + buffer[1] + b">", aliases[buffer[1]] + b">", 1)
    return type_text.replace(b"#" + alias[1] + b">", layout + b">", 1)


class ModuleFile(NamedTuple):
    """The content of a module file."""

    arguments: list[GraphArgument]
    bytes: int
    lines: int
    left_out: tuple[str, ...]
    """What was too long to be looked at."""


def read_module(path: str | Path) -> ModuleFile:
    """The annotated arguments in a file."""
    splitter, items, byte_count, line_count = LineSplitter(), [], 0, 0
    with OpenedSource(path) as opened:
        try:
            for chunk in chain(opened.chunks(), [b""]):
                lines = splitter.split(chunk) if chunk else splitter.rest()
                byte_count += len(chunk)
                line_count += len(lines)
                items += [item for line in lines if (item := parse_module_line(line))]
        except TruncatedSourceError as error:
            hint = "make the file again"
            raise BadInputError(f"cannot be unpacked: {error.reason}", where=opened.name, hint=hint) from error
    return ModuleFile(collect_arguments(items), byte_count, line_count, (*splitter.long_lines.remarks, *opened.remarks))


def read(path: str | Path, options: ReadOptions) -> Profile:
    """A profile that knows the graph's weights and nothing of a run."""
    module = read_module(path)
    if not module.arguments:
        raise BadInputError(
            "no function with annotated arguments in this module",
            where=str(path),
            hint="dump the ttir or ttnn stage: earlier stages do not mark weights",
        )
    return ProfileTables().build(
        (),
        name=options.name,
        source=Source(
            kind=KIND,
            name=str(path),
            bytes=module.bytes,
            lines=module.lines,
            warnings=(
                "a module dump lists a graph's weights, not the memory that a run needed",
                *module.left_out,
            ),
        ),
        arguments=module.arguments,
    )
