# SPDX-License-Identifier: Apache-2.0
"""A tool's call: what it may read and write, the verb in a process of its own, and the limit on its answer.

- An agent may name files below the roots, stored reports and pasted text; nothing else is read or written. The roots
  are those of ``--root``; else those that the client offers; else the working folder. The names in a call are checked
  here, before the verb runs; whatever the verb opens then is checked by its sandbox.
- Each call is a fresh ``ttmem VERB --json``: the agent gets exactly what a person gets, a log of gigabytes leaves no
  memory behind in the server, and nothing that a verb prints can get into the protocol.
"""

import asyncio
import contextlib
import json
import os
import signal
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ttmem.base import file_sandbox
from ttmem.base.child_process import ttmem_command
from ttmem.base.file_sandbox import FileSandbox
from ttmem.commands.mcp_server.tools import Tool, VerbFailedError, is_content

_PATIENCE_SECONDS = 10.0
_OUTPUTS = ("--output", "--patch")
_NO_DASHES = {("test",)}
"""pytest would take such a word for an option of its own, and those write, delete and load whatever they name."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The roots of a server; without any: the client's, or the working folder."""

    given: tuple[Path, ...] = ()

    async def find_roots(self, session: Any) -> tuple[Path, ...]:
        """Return folders, the first of which is where relative paths begin."""
        offered = None if self.given else await _ask_roots(session)
        if offered is not None:
            return tuple(root for root in offered if root.is_dir())
        working = Path.cwd()
        # Some clients start their servers in '/', without meaning that everything may be read.
        return self.given or (() if working == Path(working.anchor) else (working,))


def build_sandbox(tool: Tool, arguments: Mapping[str, Any], roots: Sequence[Path]) -> FileSandbox:
    """Return what the call may open; ``VerbFailedError`` when it names something else."""
    base = roots[0] if roots else Path.cwd()
    sandbox = FileSandbox.around_folders(roots)
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
            if not sandbox.allows_path(place):
                listed = ", ".join(map(str, sandbox.roots)) or "none"
                raise VerbFailedError(f"{one}: {file_sandbox.REFUSAL} ({listed})\nhint: {file_sandbox.REMEDY}")
    return FileSandbox.around_folders(roots, outputs)


def _exists(path: Path) -> bool:
    """Return whether something exists there, even a broken link."""
    try:
        return os.path.lexists(path)
    except (OSError, ValueError):  # too long, a NUL, a lone surrogate: no path at all
        return False


async def _ask_roots(session: Any) -> list[Path] | None:
    """Return the client's roots, None when it does not offer any."""
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


TIMEOUT_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a verb."""

    text: str
    status: int
    """0: done, or yes. 1: the answer is no (over budget, a regression). Of 'run' and 'test' it is the program's own."""

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document."""
        try:
            found = json.loads(self.text)
        except ValueError:
            raise VerbFailedError(f"the answer is no JSON: {self.text[:200]}") from None
        return found if isinstance(found, dict) else {"entries": found}


async def run_verb(
    *arguments: str, stdin: str = "", sandbox: FileSandbox | None = None, folder: Path | None = None
) -> Answer:
    """Run a verb to its end, in ``folder``; when the agent cancels, or this process dies, it is killed.

    ``sandbox`` decides which files it may open.
    """
    try:
        child = await asyncio.create_subprocess_exec(
            *ttmem_command("ttmem.commands.program", *arguments, sandbox=sandbox),
            cwd=folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "NO_COLOR": "1"},
            start_new_session=True,  # its children are killed with it
        )
    except (OSError, ValueError) as error:  # too long, or with characters that no command line can hold
        raise VerbFailedError(f"these arguments cannot be passed on: {error}") from None
    try:
        answer, errors = await asyncio.wait_for(child.communicate(stdin.encode("utf-8", "replace")), TIMEOUT_SECONDS)
    except asyncio.TimeoutError:  # a name of its own until Python 3.11
        raise VerbFailedError(f"no answer within {TIMEOUT_SECONDS:.0f} s; ask for less, for example one run") from None
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
    text = answer.decode("utf-8", "replace")
    if not text.strip():  # a verb that refuses leaves stdout empty, whatever its status
        raise VerbFailedError(_explain_failure(errors.decode("utf-8", "replace"), child.returncode))
    return Answer(text, child.returncode or 0)


def _explain_failure(errors: str, code: int | None) -> str:
    lines: Sequence[str] = [line.removeprefix("ttmem: error: ").strip() for line in errors.strip().splitlines()]
    return "\n".join(lines[-4:]) or f"the verb ended with status {code}"


DEFAULT_ROWS = 10
MOST_ROWS = 100
MOST_CHARACTERS = 75_000
"""About 25,000 tokens: JSON of figures and names has three characters per token."""
_LONGEST_TEXT = 2_000
_MOST_KEYS = 40
"""A mapping with more entries is a table by name (operations by name), and cut like one."""


def limit_rows(rows: int) -> int:
    """Return the requested number of rows, within the cap."""
    return max(1, min(rows, MOST_ROWS))


def limit_document(document: dict[str, Any], rows: int) -> dict[str, Any]:
    """Return the document with long tables cut to ``rows``; ``not_listed`` counts what each one lost.

    When that is still too long, rows are halved until it fits: fewer rows are an answer, a cut JSON text is none.
    """
    rows = limit_rows(rows)
    while True:
        lost: dict[str, int] = {}
        answer: dict[str, Any] = _cut(document, rows, "", lost)
        if lost:
            answer["not_listed"] = lost
        if len(json.dumps(answer)) <= MOST_CHARACTERS or rows == 1:
            return answer
        rows = max(1, rows // 2)


def limit_text(text: str) -> str:
    """Return the text within the same limit."""
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}\n\n(cut: {len(text) - MOST_CHARACTERS:,} more characters)"


def _cut(value: Any, rows: int, path: str, lost: dict[str, int]) -> Any:
    if isinstance(value, dict):
        kept = value
        if len(value) > _MOST_KEYS and len(value) > rows:
            kept = dict(list(value.items())[:rows])
            lost[path or "."] = len(value) - rows
        return {key: _cut(item, rows, f"{path}.{key}" if path else str(key), lost) for key, item in kept.items()}
    if isinstance(value, list):
        if all(not isinstance(item, dict | list) for item in value):
            limit = max(rows, MOST_ROWS) if all(isinstance(item, int | float) for item in value) else rows
        else:
            limit = rows
        if len(value) > limit:
            lost[path] = lost.get(path, 0) + len(value) - limit
        return [_cut(item, rows, path, lost) for item in value[:limit]]
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return f"{value[:_LONGEST_TEXT]}… ({len(value) - _LONGEST_TEXT:,} more characters)"
    return value
