# SPDX-License-Identifier: Apache-2.0
"""``ttmem mcp``: Serve the verbs as MCP tools to an agent, over stdin and stdout."""

from __future__ import annotations

from ttmem.commands._runner import verb

_EXAMPLES = """
ttmem mcp
claude mcp add ttmem -- ttmem mcp
"""


@verb("mcp", examples=_EXAMPLES)
def command() -> None:
    """Serve the verbs as MCP tools on stdin and stdout, for an agent that starts this command itself.

    Tools: profile, diff, check, reports, explain, tensor, boards, replay, live. Answers are bounded: 10 rows per table
    unless asked for more (at most 100), about 25,000 tokens in all, with their caveats in them.
    """
    from ttmem.mcp_server import serve

    serve()
