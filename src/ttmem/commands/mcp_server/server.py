# SPDX-License-Identifier: Apache-2.0
"""The server: the tools that the verbs make, on stdin and stdout, with bounded answers."""

import importlib
import inspect
import io
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import click

from ttmem._version import __version__
from ttmem.base.errors import MissingPartError
from ttmem.base.extras import install_command
from ttmem.commands.mcp_server.bounds import DEFAULT_ROWS, MOST_ROWS, bounded, bounded_text
from ttmem.commands.mcp_server.naming import with_known_names, without_links
from ttmem.commands.mcp_server.policy import Policy, fence_for
from ttmem.commands.mcp_server.tools import LeaveOut, Parameter, Tool, command_line, tools_of
from ttmem.commands.mcp_server.verbs import Answer, VerbFailedError, ask
from ttmem.commands.mcp_server.wire import ReadableLines

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
"""A list of a dozen facts, given whole unless fewer are asked for."""


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
    """The server with a tool per verb of the program."""
    sdk = _sdk()
    about = {"version": __version__} if "version" in inspect.signature(sdk.server).parameters else {}
    tools = list(tools_of(program, leave_out))
    server = _named(sdk, tools)("ttmem", instructions=_INSTRUCTIONS, log_level="WARNING", **about)
    for tool in tools:
        server.tool(name=tool.name, description=tool.description, structured_output=False)(_function(tool, sdk, policy))
    return server


class _Sdk(NamedTuple):
    """The classes that are used of the SDK; some moved with version 2."""

    server: Any
    context: type
    """Of a call: a parameter of this type is not shown to the agent."""
    error: type[Exception]
    """An error whose text reaches the agent; others are hidden from it."""
    result: Any
    field: Any


def _sdk() -> _Sdk:
    for package, name in (("mcp.server.mcpserver", "MCPServer"), ("mcp.server.fastmcp", "FastMCP")):
        try:
            module = importlib.import_module(package)
            error = importlib.import_module(f"{package}.exceptions").ToolError
            result = importlib.import_module("mcp.types").CallToolResult
            return _Sdk(getattr(module, name), module.Context, error, result, importlib.import_module("pydantic").Field)
        except (ImportError, AttributeError):
            continue
    raise MissingPartError("the MCP server needs the official SDK, which is not installed", hint=install_command("mcp"))


def _named(sdk: _Sdk, tools: Sequence[Tool]) -> Any:
    """The server's class, which looks at the names of arguments before the SDK does: its errors suggest none."""
    known = {tool.name: tool for tool in tools}

    class Server(sdk.server):  # type: ignore[misc, name-defined]
        async def call_tool(self, name: str, arguments: dict[str, Any], *rest: Any, **more: Any) -> Any:
            if (tool := known.get(name)) is not None:
                names = [parameter.name for parameter in tool.parameters]
                needed = [parameter.name for parameter in tool.parameters if parameter.required]
                try:
                    arguments = with_known_names(name, [*names, *_OWN_PARAMETERS], needed, arguments)
                except VerbFailedError as refusal:
                    raise sdk.error(str(refusal)) from None
            try:
                return await super().call_tool(name, arguments, *rest, **more)
            except sdk.error as error:
                raise sdk.error(without_links(str(error))) from None

    return Server


def _function(tool: Tool, sdk: _Sdk, policy: Policy) -> Callable[..., Awaitable[Any]]:
    """What the SDK calls; it reads names, types and descriptions of the parameters from the signature."""
    formats = tuple(tool.formats)

    async def call(called: Any = None, **arguments: Any) -> Any:
        rows = arguments.pop("rows")
        chosen = arguments.pop("format", formats[0])
        try:
            words, stdin = command_line(tool, chosen, arguments)
            roots = await policy.roots(called.session)
            fence = fence_for(tool, arguments, roots)
            answer = await ask(*words, stdin=stdin, fence=fence, folder=roots[0] if roots else None)
            document = _bounded_document(answer, rows) if chosen == "json" else None
        except VerbFailedError as refusal:
            raise sdk.error(str(refusal)) from None
        if document is None:
            ended = f"\n\nExit status: {answer.status}" if answer.status else ""
            return _result(sdk, f"{bounded_text(answer.text)}{ended}")
        return _result(sdk, json.dumps(document, separators=(",", ":")), document)

    rows_by_default = MOST_ROWS if tool.name in _SHORT_TABLES else DEFAULT_ROWS
    extra = [Parameter("rows", f"Rows per table of a JSON answer, at most {MOST_ROWS}.", int, default=rows_by_default)]
    if len(formats) > 1:
        about = "How the answer is written."
        extra.append(Parameter("format", about, words=formats, is_strict=True, default=formats[0]))
    call.__name__ = tool.name
    parameters = [_signed(parameter, sdk) for parameter in (*tool.parameters, *extra)]
    parameters.sort(key=lambda signed: signed.default is not inspect.Parameter.empty)
    call.__annotations__ = {"called": sdk.context}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _signed(parameter: Parameter, sdk: _Sdk) -> inspect.Parameter:
    """The parameter in the types that the SDK makes a schema of."""
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
    """Made from the protocol's own names, which both versions of the SDK read."""
    content = {"content": [{"type": "text", "text": text}]}
    return sdk.result.model_validate({**content, **({"structuredContent": document} if document else {})})


def _bounded_document(answer: Answer, rows: int) -> dict[str, Any]:
    """The verb's document, caveats first."""
    document = answer.document
    caveats = _caveats_of(document)
    known = {"exit_status": answer.status, "ttmem": __version__}
    return {**({"caveats": caveats} if caveats else {}), **bounded(document, rows), **known}


def _caveats_of(document: dict[str, Any]) -> list[str]:
    """What a profile says about its own figures, put where it cannot be missed."""
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
