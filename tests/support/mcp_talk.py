# SPDX-License-Identifier: Apache-2.0
"""Talks to ``ttmem mcp`` with the SDK's own client over stdio: calls in (JSON on stdin), results out (on stdout).

``talk`` starts it as a process of its own: pytest is strict about warnings, and the SDK is not.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

START = """
import sys
sys.path[:] = [place for place in sys.path if place]
from ttmem.commands.program import main
sys.exit(main())
"""


def talk(
    env: dict[str, str],
    *calls: tuple[str, dict[str, Any]],
    folder: Path | None = None,
    words: Sequence[object] = (),
    client_roots: Sequence[Path] | None = None,
) -> dict[str, Any]:
    """What the SDK's own client gets from a server that was started in that folder with those words.

    ``client_roots`` are the roots that the client offers; None offers none.
    """
    asked = {
        "calls": calls,
        "folder": str(folder) if folder else None,
        "words": [*map(str, words)],
        "roots": None if client_roots is None else [root.as_uri() for root in client_roots],
    }
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        env=env,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


async def main(asked: dict[str, Any]) -> dict[str, Any]:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.types import ListRootsResult

    server = StdioServerParameters(
        command=sys.executable, args=["-c", START, "mcp", *asked["words"]], env=dict(os.environ), cwd=asked["folder"]
    )

    async def roots(_: Any) -> Any:
        return ListRootsResult.model_validate({"roots": [{"uri": uri} for uri in asked["roots"]]})

    offered = {} if asked["roots"] is None else {"list_roots_callback": roots}
    async with stdio_client(server) as (reader, writer), ClientSession(reader, writer, **offered) as session:
        hello = await session.initialize()
        tools = (await session.list_tools()).tools
        results = []
        for name, arguments in asked["calls"]:
            answer = await session.call_tool(name, arguments)
            failed = getattr(answer, "is_error", None) if hasattr(answer, "is_error") else answer.isError
            structured = getattr(answer, "structured_content", None) or getattr(answer, "structuredContent", None)
            text = "".join(part.text for part in answer.content)
            results.append({"failed": bool(failed), "text": text, "document": structured})
        return {
            "instructions": hello.instructions,
            "tools": {
                tool.name: {
                    "description": tool.description,
                    "schema": getattr(tool, "input_schema", None) or tool.inputSchema,
                }
                for tool in tools
            },
            "results": results,
        }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.stdout.write(json.dumps(asyncio.run(main(json.load(sys.stdin)))))
