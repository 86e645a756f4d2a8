# SPDX-License-Identifier: Apache-2.0
"""The tools and their descriptions; what they do is in the verbs."""

from __future__ import annotations

import functools
import importlib
import inspect
import io
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ttmem._errors import MissingPartError
from ttmem._version import __version__
from ttmem.mcp_server.bounds import DEFAULT_ROWS, MOST_ROWS, bounded, bounded_text
from ttmem.mcp_server.verbs import VerbFailedError, ask, options

Tool = Callable[..., Awaitable[str]]

_INSTALL = "pip install 'ttmem[mcp]'"
_INSTRUCTIONS = f"""\
Answers about device memory of Tenstorrent chips. Bytes are integers; *_per_bank is one slice of a memory (all banks
move in lock step), everything else is one whole chip. A source is a path (runtime log, graph capture, ttnn-visualizer
report, memory-report folder, saved profile) or the name of a stored report; 'profile' stores what it reads, and later
calls are quicker by that name. Tables show {DEFAULT_ROWS} rows unless asked (at most {MOST_ROWS}); 'not_listed' counts
the rest. Read 'caveats' before quoting a figure.
"""


def serve() -> None:
    """Speak the protocol on stdin and stdout until the client leaves."""
    try:
        build().run("stdio")
    finally:
        # Version 1 of the SDK closes stdout on its way out, and whoever flushes it next would fail.
        sys.stdout = io.StringIO()


def build(verbs: Sequence[str] | None = None) -> Any:
    """The server with a tool per verb; ``verbs`` are those that this ttmem has (default: ask it)."""
    sdk = _sdk()
    about = {"version": __version__} if "version" in inspect.signature(sdk.server).parameters else {}
    server = sdk.server("ttmem", instructions=_INSTRUCTIONS, log_level="WARNING", **about)
    if verbs is None:
        from ttmem.commands import cli

        verbs = list(cli.lines)
    for name, tool in _TOOLS.items():
        if name in verbs:
            server.tool(name=name, structured_output=False)(_told(tool, sdk.error))
    return server


@dataclass(frozen=True, slots=True)
class _Sdk:
    """The two classes that are used of the SDK; they moved with version 2."""

    server: Any
    error: type[Exception]
    """An error whose text reaches the agent; others are hidden from it."""


def _sdk() -> _Sdk:
    for package, name in (("mcp.server.mcpserver", "MCPServer"), ("mcp.server.fastmcp", "FastMCP")):
        try:
            server = getattr(importlib.import_module(package), name)
            return _Sdk(server, importlib.import_module(f"{package}.exceptions").ToolError)
        except ImportError:
            continue
    raise MissingPartError("the MCP server needs the official SDK, which is not installed", hint=_INSTALL)


def _told(tool: Tool, error: type[Exception]) -> Tool:
    """The tool, with a verb's refusal as an error that the agent can read."""

    @functools.wraps(tool)
    async def told(*arguments: Any, **named: Any) -> str:
        try:
            return await tool(*arguments, **named)
        except VerbFailedError as refusal:
            raise error(str(refusal)) from None

    return told


async def profile(
    source: str, run: str = "all", rank: int | None = None, rows: int = DEFAULT_ROWS, markdown: bool = False
) -> str:
    """What filled the memory: peaks, the operation and the tensors behind them, padding, weights, the failure.

    The report is stored; its name is in the answer and is a source for every other tool. run is 'all', 'last' or a
    number; markdown gives the report for reading (at most 8,000 tokens) instead of JSON.
    """
    words = ["profile", source, "--quiet", *options(run=run, rank=rank)]
    if markdown:
        return bounded_text((await ask(*words, "--llm")).text)
    document = (await ask(*words, "--json")).document
    return _text(document, rows, caveats=_caveats_of(document))


async def diff(before: str, after: str, fail_on: str | None = None, rows: int = DEFAULT_ROWS) -> str:
    """What grew from one source to another: which memory, which tensor, and the operation that made it.

    fail_on ('5%' or '20MiB' per bank) makes the answer say whether it is a regression.
    """
    answer = await ask("diff", before, after, "--quiet", "--json", *options(fail_on=fail_on))
    return _text(answer.document, rows)


async def check(
    source: str,
    max_dram: str | None = None,
    max_l1: str | None = None,
    max_padding: str | None = None,
    baseline: str | None = None,
    max_growth: str | None = None,
    rows: int = DEFAULT_ROWS,
) -> str:
    """Whether a source stays within a memory budget: one verdict per limit, with the operation to look at.

    Limits are shares of the bank ('80%') or bytes per bank ('700MiB'); without any, DRAM 80% and L1 90%.
    """
    limits = options(
        max_dram=max_dram, max_l1=max_l1, max_padding=max_padding, baseline=baseline, max_growth=max_growth
    )
    answer = await ask("check", source, "--quiet", "--json", *limits)
    return _text({"within_budget": not answer.is_no, **answer.document}, rows)


async def reports(rows: int = DEFAULT_ROWS) -> str:
    """The stored reports: name, when, from what, how many operations, DRAM peak per bank."""
    return _text((await ask("reports", "--json")).document, rows)


async def explain(text: str, board: str | None = None, rows: int = DEFAULT_ROWS) -> str:
    """What a failure message (or a whole log's text) means: class, arithmetic, diagnosis and remedies."""
    answer = await ask("explain", "-", "--json", *options(board=board), stdin=text)
    return _text(answer.document, rows)


async def tensor(
    shape: str,
    dtype: str = "bfloat16",
    layout: str = "tile",
    memory: str | None = None,
    board: str | None = None,
    shard: str | None = None,
    l1_small: int | None = None,
    trace_region: int | None = None,
    rows: int = DEFAULT_ROWS,
) -> str:
    """What a tensor takes of every bank, what of it is padding, and whether an empty board could hold it.

    shape is '1x96x2176x1920', shard 'height:64x512@8x8' (also width: and block:). Computed, nothing runs.
    """
    words = options(
        dtype=dtype,
        layout=layout,
        memory=memory,
        board=board,
        shard=shard,
        l1_small=l1_small,
        trace_region=trace_region,
    )
    return _text((await ask("tensor", shape, "--json", *words)).document, rows)


async def boards(names: list[str] | None = None, rows: int = MOST_ROWS) -> str:
    """The boards: chips, compute grid, DRAM and L1 banks with their sizes."""
    return _text((await ask("boards", *(names or []), "--json")).document, rows)


async def replay(
    steps: list[dict[str, Any]],
    board: str | None = None,
    l1_small: int | None = None,
    trace_region: int | None = None,
    rows: int = DEFAULT_ROWS,
) -> str:
    """Allocate and free a list of tensors on an empty board, as the library's allocator would, to the byte.

    Steps: {"alloc": "a", "shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "L1"} or
    {"free": "a"}; the answer has an address or the reason of a failure for each.
    """
    script = "".join(f"{json.dumps(step)}\n" for step in steps)
    words = options(board=board, l1_small=l1_small, trace_region=trace_region)
    return _text((await ask("replay", "-", "--json", *words, stdin=script)).document, rows)


async def live(rows: int = DEFAULT_ROWS) -> str:
    """What running processes hold in DRAM and L1 now, per chip, from shared memory counters."""
    answer = await ask("live", "--once", "--json")
    return _text(answer.document, rows)


_TOOLS = {tool.__name__: tool for tool in (profile, diff, check, reports, explain, tensor, boards, replay, live)}


def _caveats_of(document: dict[str, Any]) -> list[str]:
    """What a profile says about its own figures, put where it cannot be missed."""
    source = document.get("source", {})
    caveats = [str(warning) for warning in source.get("warnings", ())]
    error = source.get("state_error_bytes")
    if error:
        caveats.append(f"states were printed rounded: bytes per bank may be off by {error}")
    programs = document.get("memories", {}).get("L1", {}).get("peak_with_programs_bytes_per_core")
    if programs is None and "L1" in document.get("memories", {}):
        caveats.append("the L1 peak counts tensors only: circular and dataflow buffers of programs are not in it")
    return caveats


def _text(document: dict[str, Any], rows: int, *, caveats: Sequence[str] = ()) -> str:
    """The answer as compact JSON, caveats first."""
    answer = bounded(document, rows)
    answer = {**({"caveats": list(caveats)} if caveats else {}), **answer, "ttmem": __version__}
    return json.dumps(answer, separators=(",", ":"))
