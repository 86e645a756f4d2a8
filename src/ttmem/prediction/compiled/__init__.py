# SPDX-License-Identifier: Apache-2.0
"""Turn a compiled TTNN module into the stream of its first run.

Operations, layouts, shards and deallocations are the module's own; nothing about placement is guessed.
"""

from collections.abc import Mapping
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.base.limits import DOCUMENT_BYTES
from ttmem.hardware import BOARDS, open_board
from ttmem.prediction.compiled.calls import ModuleTypes
from ttmem.prediction.compiled.module_calls import FirstRun
from ttmem.prediction.request import Request
from ttmem.prediction.stream import Stream
from ttmem.readers.byte_source import OpenedSource, TruncatedSourceError
from ttmem.readers.mlir.functions import ModuleFunction, ModuleText, read_modules

_COLUMNS = 8
_MOST = f"more than {DOCUMENT_BYTES >> 20} MiB"


def build_stream(request: Request) -> Stream:
    """Build the stream of a file: a module dump, or a log (packed or not) that contains one."""
    pieces: list[bytes] = []
    size = 0
    with OpenedSource(request.target) as opened:
        try:
            for chunk in opened.chunks():
                pieces.append(chunk)
                size += len(chunk)
                if size > DOCUMENT_BYTES:
                    hint = "cut the ttnn stage out of it: from 'MLIR Module ttnn:' on"
                    raise BadInputError(_MOST, where=request.target, hint=hint)
        except TruncatedSourceError as error:
            raise BadInputError(f"cannot be unpacked: {error.reason}", where=request.target) from error
        if opened.remarks:
            raise BadInputError(f"is too much to read whole: {opened.remarks[0]}", where=request.target)
    return build_module_stream(b"".join(pieces), request)


def build_module_stream(text: bytes, request: Request, name: str = "") -> Stream:
    """Build the stream of a TTNN module, or of a log that contains one.

    ``--set graph=N`` chooses among several modules, ``--set function=NAME`` among several entries.
    """
    where = name or request.target
    modules = read_modules(text, where)
    module = _choose_module(modules, request.settings, where)
    entry = _choose_entry(module, request.settings, where)
    layouts = ModuleTypes(module.grid[1] if module.grid else _COLUMNS)
    walk = FirstRun(module, layouts, where.rpartition("/")[2])
    walk.run(entry)
    facts = {
        "module": module.name,
        "function": entry.name,
        "compiled_for": module.architecture or None,
        "mesh": "x".join(map(str, module.mesh)) if module.mesh else None,
    }
    return Stream(
        f"{module.name}.{entry.name}",
        tuple(walk.residents),
        tuple(walk.calls),
        tuple(_list_assumptions(modules, module, entry, walk, layouts, request)),
        facts,
    )


def _choose_module(modules: list[ModuleText], settings: Mapping[str, Any], where: str) -> ModuleText:
    if "graph" not in settings:
        return max(modules, key=lambda module: module.operations)
    try:
        return modules[int(settings["graph"])]
    except (ValueError, IndexError):
        hint = f"0 to {len(modules) - 1}: " + ", ".join(module.name for module in modules)
        raise BadInputError(f"no graph '{settings['graph']}'", where=where, hint=hint) from None


def _choose_entry(module: ModuleText, settings: Mapping[str, Any], where: str) -> ModuleFunction:
    entries = module.entries
    if not entries:
        hint = "the text is cut, or is no whole module: dump it again"
        raise BadInputError("no function of the module has operations of its own", where=where, hint=hint)
    if "function" not in settings:
        return next((one for one in entries if one.name in ("main", "forward")), entries[0])
    wanted = str(settings["function"])
    if wanted not in module.functions:
        raise BadInputError(f"no function '{wanted}'", where=where, hint=", ".join(module.functions))
    return module.functions[wanted]


def _list_assumptions(
    modules: list[ModuleText],
    module: ModuleText,
    entry: ModuleFunction,
    walk: FirstRun,
    layouts: ModuleTypes,
    request: Request,
) -> list[str]:
    said = ["placement, order and deallocations are the module's; the run is the first one, const-eval included"]
    if len(modules) > 1 and "graph" not in request.settings:
        said.append(f"of {len(modules)} modules the largest, {module.name} (--set graph=N takes another)")
    if len(module.entries) > 1 and "function" not in request.settings:
        said.append(f"of {len(module.entries)} functions {entry.name} (--set function=NAME takes another)")
    if walk.frees_after_last_use and len(walk.calls) > 1:
        said.append("the module has no deallocations: tensors are freed after their last use")
    if layouts.missing_layouts:
        said.append("types without a layout are taken as interleaved tiles in DRAM")
    if layouts.other_types:
        names = ", ".join(sorted(layouts.other_types))
        said.append(f"data types that ttnn does not have ({names}) are taken as the nearest that it has")
    if walk.has_traces:
        said.append("traces are run once and captured; the trace buffers themselves are not counted")
    architecture = open_board(request.board).architecture if request.board in BOARDS else None
    if module.architecture and architecture and module.architecture != architecture.ttnn_name:
        said.append(f"the module was compiled for {module.architecture}, the board is {architecture.ttnn_name}")
    return said
