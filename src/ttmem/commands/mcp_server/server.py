# SPDX-License-Identifier: Apache-2.0
"""The server: the verbs as tools, on stdin and stdout, with bounded answers."""

import difflib
import importlib
import inspect
import io
import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

import click

from ttmem._version import __version__
from ttmem.base.errors import MissingPartError
from ttmem.base.extras import install_command
from ttmem.commands.mcp_server.calls import (
    DEFAULT_ROWS,
    MOST_ROWS,
    Answer,
    Policy,
    build_sandbox,
    limit_document,
    limit_text,
    run_verb,
)
from ttmem.commands.mcp_server.tools import LeaveOut, Parameter, Tool, VerbFailedError, build_command_line, list_tools

_INSTRUCTIONS = f"""\
Answers about device memory of Tenstorrent chips; each tool is the command 'ttmem' with that verb. Bytes are integers;
*_per_bank is one slice of a memory (all banks move in lock step), everything else is one whole chip. A source is a path
(runtime log, graph capture, ttnn-visualizer report, memory-report folder, saved profile) below this server's roots, or
the name of a stored report; 'profile' stores what it reads, and later calls are quicker by that name. JSON answers show
{DEFAULT_ROWS} rows per table unless asked (at most {MOST_ROWS}); 'not_listed' counts the rest. Their 'exit_status' is 0
for done or yes, 1 when the answer is no; of 'run' and 'test' it is the program's own. Read 'caveats' before quoting a
figure.
"""
_OWN_PARAMETERS = ("rows", "format")
_SHORT_TABLES = {"boards"}
"""Tools whose table of a dozen rows is not cut by default."""


def serve(program: click.Group, leave_out: LeaveOut, roots: Sequence[Path] = ()) -> None:
    """Speak the protocol on stdin and stdout until the client leaves; ``roots`` are what its calls may name."""
    server = build(program, leave_out, Policy(tuple(roots)))
    try:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(ReadableLines(sys.stdin.buffer)), "utf-8")
        server.run("stdio")
    finally:
        # Version 1 of the SDK closes stdout on its way out, and whoever flushes it next would fail.
        sys.stdout = io.StringIO()


def build(program: click.Group, leave_out: LeaveOut, policy: Policy) -> Any:
    """Build the server with a tool per verb of the program."""
    sdk = _import_sdk()
    about = {"version": __version__} if "version" in inspect.signature(sdk.server).parameters else {}
    tools = list(list_tools(program, leave_out))
    server = _build_class(sdk, tools)("ttmem", instructions=_INSTRUCTIONS, log_level="WARNING", **about)
    for tool in tools:
        server.tool(name=tool.name, description=tool.description, structured_output=False)(
            _build_function(tool, sdk, policy)
        )
    return server


class _Sdk(NamedTuple):
    """The classes of the SDK that are used; some moved with version 2."""

    server: Any
    context: type
    """Of a call: a parameter of this type is not shown to the agent."""
    error: type[Exception]
    """An error whose text reaches the agent; others are hidden from it."""
    result: Any
    field: Any


def _import_sdk() -> _Sdk:
    for package, name in (("mcp.server.mcpserver", "MCPServer"), ("mcp.server.fastmcp", "FastMCP")):
        try:
            module = importlib.import_module(package)
            error = importlib.import_module(f"{package}.exceptions").ToolError
            result = importlib.import_module("mcp.types").CallToolResult
            return _Sdk(getattr(module, name), module.Context, error, result, importlib.import_module("pydantic").Field)
        except (ImportError, AttributeError):
            continue
    raise MissingPartError("the MCP server needs the official SDK, which is not installed", hint=install_command("mcp"))


def _build_class(sdk: _Sdk, tools: Sequence[Tool]) -> Any:
    """Return the server's class, which checks the names of arguments before the SDK does: its errors suggest none."""
    known = {tool.name: tool for tool in tools}

    class Server(sdk.server):  # type: ignore[misc, name-defined]
        async def call_tool(self, name: str, arguments: dict[str, Any], *rest: Any, **more: Any) -> Any:
            if (tool := known.get(name)) is not None:
                names = [parameter.name for parameter in tool.parameters]
                needed = [parameter.name for parameter in tool.parameters if parameter.required]
                try:
                    arguments = check_names(name, [*names, *_OWN_PARAMETERS], needed, arguments)
                except VerbFailedError as refusal:
                    raise sdk.error(str(refusal)) from None
            try:
                return await super().call_tool(name, arguments, *rest, **more)
            except sdk.error as error:
                raise sdk.error(drop_links(str(error))) from None

    return Server


def _build_function(tool: Tool, sdk: _Sdk, policy: Policy) -> Callable[..., Awaitable[Any]]:
    """Return what the SDK calls; it reads names, types and descriptions of the parameters from the signature."""
    formats = tuple(tool.formats)

    async def call(called: Any = None, **arguments: Any) -> Any:
        rows = arguments.pop("rows")
        chosen = arguments.pop("format", formats[0])
        try:
            words, stdin = build_command_line(tool, chosen, arguments)
            roots = await policy.find_roots(called.session)
            sandbox = build_sandbox(tool, arguments, roots)
            answer = await run_verb(*words, stdin=stdin, sandbox=sandbox, folder=roots[0] if roots else None)
            document = _build_document(answer, rows) if chosen == "json" else None
        except VerbFailedError as refusal:
            raise sdk.error(str(refusal)) from None
        if document is None:
            ended = f"\n\nExit status: {answer.status}" if answer.status else ""
            return _result(sdk, f"{limit_text(answer.text)}{ended}")
        return _result(sdk, json.dumps(document, separators=(",", ":")), document)

    rows_by_default = MOST_ROWS if tool.name in _SHORT_TABLES else DEFAULT_ROWS
    extra = [Parameter("rows", f"Rows per table of a JSON answer, at most {MOST_ROWS}.", int, default=rows_by_default)]
    if len(formats) > 1:
        about = "How the answer is written."
        extra.append(Parameter("format", about, words=formats, is_strict=True, default=formats[0]))
    call.__name__ = tool.name
    parameters = [_build_parameter(parameter, sdk) for parameter in (*tool.parameters, *extra)]
    parameters.sort(key=lambda signed: signed.default is not inspect.Parameter.empty)
    call.__annotations__ = {"called": sdk.context}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _build_parameter(parameter: Parameter, sdk: _Sdk) -> inspect.Parameter:
    """Return the parameter in the types that the SDK makes a schema of."""
    kind: Any = parameter.type
    if parameter.is_strict and parameter.words:
        kind = Literal[parameter.words]
    elif parameter.words:  # the verb knows more spellings than the list shows
        kind = Annotated[str, sdk.field(json_schema_extra={"enum": list(parameter.words)})]
    elif parameter.least is not None or parameter.most is not None:
        kind = Annotated[kind, sdk.field(ge=parameter.least, le=parameter.most)]
    if parameter.many:
        kind = list[kind]
    elif parameter.takes_rows:
        kind = kind | list[dict[str, Any]]
    default = inspect.Parameter.empty if parameter.required else parameter.default
    if default is None:
        kind = kind | None
    annotation = Annotated[kind, sdk.field(description=parameter.description)]
    return inspect.Parameter(parameter.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _result(sdk: _Sdk, text: str, document: dict[str, Any] | None = None) -> Any:
    """Build a result from the protocol's own names, which both versions of the SDK read."""
    content = {"content": [{"type": "text", "text": text}]}
    return sdk.result.model_validate({**content, **({"structuredContent": document} if document else {})})


def _build_document(answer: Answer, rows: int) -> dict[str, Any]:
    """Return the verb's document, caveats first."""
    document = answer.document
    caveats = _list_caveats(document)
    known = {"exit_status": answer.status, "ttmem": __version__}
    return {**({"caveats": caveats} if caveats else {}), **limit_document(document, rows), **known}


def _list_caveats(document: dict[str, Any]) -> list[str]:
    """Return the caveats of a profile about its own figures."""
    source = document.get("source")
    if not isinstance(source, dict):
        return []
    caveats = [str(warning) for warning in source.get("warnings", ())]
    error = source.get("state_error_bytes")
    if error:
        caveats.append(f"states were printed rounded: bytes per bank may be off by {error}")
    l1 = document.get("memories", {}).get("L1")
    if l1 is not None and l1.get("peak_with_programs_bytes_per_core") is None:
        caveats.append("the L1 peak counts tensors only: circular and dataflow buffers of programs are not in it")
    return caveats


_FORMER_NAMES: dict[str, dict[str, str]] = {"diff": {"a": "before", "b": "after"}}


def check_names(tool: str, names: Sequence[str], needed: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments under the names of the parameters; ``VerbFailedError`` for a name that is none of them."""
    former = _FORMER_NAMES.get(tool, {})
    arguments = {former.get(name, name) if name not in names else name: value for name, value in given.items()}
    unknown = [name for name in arguments if name not in names]
    missing = [name for name in needed if name not in arguments]
    if unknown:
        left = missing or [name for name in names if name not in arguments]
        close = difflib.get_close_matches(unknown[0], left, n=3, cutoff=0.5) or missing
        guess = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise VerbFailedError(f"'{tool}' has no parameter {unknown[0]!r}{guess} (it has {', '.join(names)})")
    if missing:
        raise VerbFailedError(f"'{tool}' needs {' and '.join(map(repr, missing))}")
    return arguments


def drop_links(text: str) -> str:
    """Return a validation error without links to the library that found it."""
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith("For further information"))


_HIGH, _LOW = rb"u[dD][89aAbB][0-9a-fA-F]{2}", rb"u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rb"\\(?:" + _HIGH + rb"\\" + _LOW + rb"|(" + _HIGH + rb"|" + _LOW + rb")|.)", re.DOTALL)
"""Any escape, so that an escaped backslash begins none; the group is half of a surrogate pair."""
_ID = re.compile(rb'"id"\s*:\s*("[^"\\]{0,100}"|-?\d{1,18})')


def repair_line(line: bytes) -> bytes:
    """Return a line that the SDK can parse, so that every request gets an answer.

    A line that its parser refuses would be dropped in silence, and the client would wait for ever. Half of a surrogate
    pair becomes the replacement character; a line that is no JSON but has an ``id`` becomes a request that is answered
    with an error.
    """
    if b"\\u" in line:
        line = _ESCAPE.sub(_replace_half_pair, line)
    if not line.strip():
        return line
    try:
        import pydantic_core

        pydantic_core.from_json(line, allow_inf_nan=False)
    except ValueError as error:
        found = _ID.search(line)
        request = {"jsonrpc": "2.0", "method": f"a line that is no JSON ({error})"[:200]}
        if found:
            return json.dumps(request | {"id": json.loads(found[1])}).encode() + b"\n"
    return line


def _replace_half_pair(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if escape[1] else escape[0]


class ReadableLines(io.RawIOBase):
    """The lines of another stream, repaired."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Read as much of the current line as fits; nothing at the end."""
        if not self._left:
            self._left = repair_line(self._source.readline())
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)
