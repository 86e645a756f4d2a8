# SPDX-License-Identifier: Apache-2.0
"""A verb's own JSON document, asked for in a process of its own.

Each call is a fresh ``ttmem VERB --json``: the agent gets exactly what a person gets, a log of gigabytes leaves no
memory behind in the server, and nothing that a verb prints can get into the protocol.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ttmem

_YES, _NO = 0, 1
TIMEOUT_SECONDS = 900.0


class VerbFailedError(Exception):
    """The verb refused; the text is what it told, with its hint."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a verb said."""

    text: str
    is_no: bool
    """The verb's answer is no: it does not fit, is over budget, is a regression."""

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.text)
        return found if isinstance(found, dict) else {"entries": found}


async def ask(*arguments: str, stdin: str = "") -> Answer:
    """Run a verb to its end; when the agent takes its question back, the process goes with it."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ttmem", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1", "PYTHONPATH": _python_path()},
    )
    try:
        answer, errors = await asyncio.wait_for(child.communicate(stdin.encode("utf-8", "replace")), TIMEOUT_SECONDS)
    except asyncio.TimeoutError:  # a name of its own until Python 3.11
        raise VerbFailedError(f"no answer within {TIMEOUT_SECONDS:.0f} s; ask for less, for example one run") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode not in (_YES, _NO):
        raise VerbFailedError(_reason(errors.decode("utf-8", "replace"), child.returncode))
    return Answer(answer.decode("utf-8", "replace"), is_no=child.returncode == _NO)


def options(**values: object) -> list[str]:
    """``max_dram="80%"`` -> ``--max-dram 80%``; None and False are left out."""
    words: list[str] = []
    for name, value in values.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(str(value))
    return words


def _python_path() -> str:
    """The child finds the same ttmem, installed or not."""
    here = str(Path(ttmem.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH", "")
    return f"{here}{os.pathsep}{inherited}" if inherited else here


def _reason(errors: str, code: int | None) -> str:
    lines: Sequence[str] = [line.removeprefix("ttmem: error: ").strip() for line in errors.strip().splitlines()]
    return "\n".join(lines[-4:]) or f"the verb ended with status {code}"
