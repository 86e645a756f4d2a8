# SPDX-License-Identifier: Apache-2.0
"""What an agent may name: files below the roots, stored reports and pasted text; nothing else is read or written.

The roots are those that ``--root`` names; else those that the client offers; else the working folder. The names in a
call are looked at here, before the verb is asked; whatever the verb opens then is looked at by its fence.
"""

import asyncio
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ttmem.base import file_sandbox
from ttmem.commands.mcp_server.tools import Tool, is_content
from ttmem.commands.mcp_server.verbs import VerbFailedError

_PATIENCE_SECONDS = 10.0
_OUTPUTS = ("--output", "--patch")
_NO_DASHES = {("test",)}
"""pytest would take such a word for an option of its own, and those write, delete and load whatever they name."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The roots of a server; none given: the client's, or the working folder."""

    given: tuple[Path, ...] = ()

    async def roots(self, session: Any) -> tuple[Path, ...]:
        """Folders, the first of which is where relative paths begin."""
        offered = None if self.given else await _offered(session)
        if offered is not None:
            return tuple(root for root in offered if root.is_dir())
        working = Path.cwd()
        # Some clients start their servers in '/': that everything may be read was then nobody's decision.
        return self.given or (() if working == Path(working.anchor) else (working,))


def fence_for(tool: Tool, arguments: Mapping[str, Any], roots: Sequence[Path]) -> file_sandbox.FileSandbox:
    """What the call may open; ``VerbFailedError`` when it names something else."""
    base = roots[0] if roots else Path.cwd()
    fence = file_sandbox.FileSandbox.around_folders(roots)
    outputs: list[Path] = []
    for parameter in tool.parameters:
        value = arguments.get(parameter.name)
        if parameter.can_be_pasted and is_content(value):
            continue
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, str):
                continue
            if not parameter.option and tool.path in _NO_DASHES and one.startswith(("-", "@")):
                raise VerbFailedError(f"'{one}': paths and test ids only, no options of pytest")
            place = base / one.partition("::")[0]
            if parameter.option in _OUTPUTS:
                outputs.append(place)
            elif not _exists(base / one) and not _exists(place):
                continue
            if not fence.allows_path(place):
                listed = ", ".join(map(str, fence.roots)) or "none"
                raise VerbFailedError(f"{one}: {file_sandbox.REFUSAL} ({listed})\nhint: {file_sandbox.REMEDY}")
    return file_sandbox.FileSandbox.around_folders(roots, outputs)


def _exists(path: Path) -> bool:
    """Whether something is there, be it a link that leads nowhere."""
    try:
        return os.path.lexists(path)
    except (OSError, ValueError):  # too long, a NUL, a lone surrogate: no path at all
        return False


async def _offered(session: Any) -> list[Path] | None:
    """The client's roots, None when it does not offer any."""
    capabilities = getattr(session, "client_capabilities", None)
    if capabilities is None:  # version 1 of the SDK
        capabilities = getattr(getattr(session, "client_params", None), "capabilities", None)
    if getattr(capabilities, "roots", None) is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the newest protocol means to do without roots
            answer = await asyncio.wait_for(session.list_roots(), _PATIENCE_SECONDS)
    except Exception:  # whatever a client does wrong here, the working folder is what is left
        return None
    parts = [urlsplit(str(root.uri)) for root in answer.roots]
    return [Path(unquote(part.path)) for part in parts if part.scheme == "file" and part.path]
