# SPDX-License-Identifier: Apache-2.0
"""A verb's own JSON document, asked for in a process of its own.

Each call is a fresh ``ttmem VERB --json``: the agent gets exactly what a person gets, a log of gigabytes leaves no
memory behind in the server, and nothing that a verb prints can get into the protocol.
"""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttmem.base.child_process import ttmem_command
from ttmem.base.file_sandbox import FileSandbox

TIMEOUT_SECONDS = 900.0


class VerbFailedError(Exception):
    """The verb refused; the text is its error message, with its hint."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a verb answered."""

    text: str
    status: int
    """0: done, or yes. 1: the answer is no (over budget, a regression). Of 'run' and 'test' it is the program's own."""

    @property
    def document(self) -> dict[str, Any]:
        try:
            found = json.loads(self.text)
        except ValueError:
            raise VerbFailedError(f"the answer is no JSON: {self.text[:200]}") from None
        return found if isinstance(found, dict) else {"entries": found}


async def ask(*arguments: str, stdin: str = "", fence: FileSandbox | None = None, folder: Path | None = None) -> Answer:
    """Run a verb to its end; when the agent takes its question back, or this process dies, it goes too.

    ``fence`` says which files it may open, ``folder`` is where it runs.
    """
    try:
        child = await asyncio.create_subprocess_exec(
            *ttmem_command("ttmem.commands", *arguments, sandbox=fence),
            cwd=folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "NO_COLOR": "1"},
            start_new_session=True,  # what it started goes with it
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
        raise VerbFailedError(_reason(errors.decode("utf-8", "replace"), child.returncode))
    return Answer(text, child.returncode or 0)


def _reason(errors: str, code: int | None) -> str:
    lines: Sequence[str] = [line.removeprefix("ttmem: error: ").strip() for line in errors.strip().splitlines()]
    return "\n".join(lines[-4:]) or f"the verb ended with status {code}"
