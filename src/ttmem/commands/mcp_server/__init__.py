# SPDX-License-Identifier: Apache-2.0
"""The verbs as tools for agents, over the Model Context Protocol on stdin and stdout."""

from ttmem.commands.mcp_server.server import serve
from ttmem.commands.mcp_server.tools import Tool, tools_of

__all__ = ["Tool", "serve", "tools_of"]
