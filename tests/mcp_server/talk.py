# SPDX-License-Identifier: Apache-2.0
"""Talks to ``ttmem mcp`` with the SDK's own client over stdio: calls in (JSON on stdin), results out (on stdout)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

START = """
import sys
sys.path[:] = [place for place in sys.path if place]
from ttmem.commands import main
sys.exit(main())
"""
FOLDER = sys.argv[1] if len(sys.argv) > 1 else None


async def main() -> dict[str, Any]:
    calls = json.load(sys.stdin)
    server = StdioServerParameters(command=sys.executable, args=["-c", START, "mcp"], env=dict(os.environ), cwd=FOLDER)
    async with stdio_client(server) as (reader, writer), ClientSession(reader, writer) as session:
        hello = await session.initialize()
        tools = (await session.list_tools()).tools
        results = []
        for name, arguments in calls:
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


sys.stdout.write(json.dumps(asyncio.run(main())))
