# SPDX-License-Identifier: Apache-2.0
"""What the text of a failure or of a skip means: one classifier for all formats, and it reads the sentence.

Status words of other tools are not trusted: a skip can hide an out-of-memory, tt-metal's FAIL_L1_OUT_OF_MEM is set for
DRAM too, and a clash of static buffers is filed under assertions there.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from ttmem.explain import Failure, find_failures
from ttmem.sweep.tests import FAIL, SKIPPED

_SAID_TO_BE_OOM = re.compile(
    r"\bOOM\b|out[ -]of[ -]memory|(?:won'?t|doesn'?t|does not|will not) fit in (?:L1|DRAM)"
    r"|too (?:big|large) for (?:L1|DRAM)",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"incompatible function arguments|missing \d+ required|unexpected keyword|TypeError\b")
_MISSING = re.compile(r"has no attribute|AttributeError\b|not implemented|NotImplementedError")
_SHAPE = re.compile(r"\[\s*\d+(?:\s*,\s*\d+)*\s*,?\s*\]|\(\s*\d+\s*,\s*(?:\d+\s*,?\s*)*\)")
_CROSSED = re.compile(r"(?<![\w.])\d+(?:x\d+)+(?![\w.])")
_MEMORY_WORD = re.compile(r"\b(DRAM|L1_SMALL|L1|TRACE)\b")
_STATUS_OF_CLASS = {
    "buffers/clash": "clash",
    "buffers/overflow": "overflow",
    "buffers/config": "invalid",
    "shard/spec": "invalid",
    "page/size": "invalid",
    "trace/region": "oom",
    "kernel/config": "overflow",
    "crash": "crash",
    "timeout": "timeout",
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """Status and figures of one text."""

    status: str
    message: str = ""
    failure_class: str = ""
    memory: str = ""
    needed_bytes: int | None = None
    bytes_per_bank: int | None = None
    banks: int | None = None


def meaning_of_failure(text: str) -> Meaning:
    """Of a test that did not pass."""
    found = _failure(text)
    if found is not None and found.failure_class != "none":
        return _from(found)
    if _SAID_TO_BE_OOM.search(text):
        return Meaning("oom", sentence(text), "oom/unknown", _memory_word(text))
    if _MISSING.search(text):
        return Meaning("unsupported", sentence(text))
    if _REFUSED.search(text):
        return Meaning("invalid", sentence(text))
    if found is not None:  # the library's own assertion, whatever it says
        return Meaning("invalid", found.message, "none")
    return Meaning(FAIL, sentence(text))


def meaning_of_skip(reason: str) -> Meaning:
    """Of a skip: an exception in the reason is the failure that it hides; any other reason is a skip."""
    meaning = meaning_of_failure(reason)
    return meaning if meaning.status != FAIL else Meaning(SKIPPED, sentence(reason))


def _failure(text: str) -> Failure | None:
    found = [failure for failure in find_failures(text, include_other=True) if not failure.is_warning]
    return next((failure for failure in found if failure.failure_class != "none"), found[0] if found else None)


def _from(found: Failure) -> Meaning:
    status = "oom" if found.failure_class.startswith("oom/") else _STATUS_OF_CLASS.get(found.failure_class, "error")
    memory = found.memory or ("L1" if status in ("clash", "overflow") else "")
    return Meaning(
        status,
        found.message,
        found.failure_class,
        memory,
        found.numbers.get("requested_bytes"),
        found.numbers.get("bytes_per_bank"),
        found.numbers.get("banks"),
    )


def _memory_word(text: str) -> str:
    match = _MEMORY_WORD.search(text)
    return match[1] if match else ""


def shapes_in(text: str) -> tuple[tuple[int, ...], ...]:
    """Shapes as tools write them: ``[1, 3, 224, 224]``, ``(1, 3, 224, 224)``, ``1x3x224x224``."""
    found: list[tuple[int, ...]] = []
    for match in _SHAPE.finditer(text):
        value = ast.literal_eval(match[0])
        found.append(tuple(value))
    if not found:
        found = [tuple(map(int, match[0].split("x"))) for match in _CROSSED.finditer(text)]
    return tuple(found)


def sentence(text: str) -> str:
    """The line that says what happened: the last ``E   ...`` of a traceback, else the first line with words."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line[1:].strip() for line in lines if line.startswith("E ")]
    chosen = next((line for line in marked if not line.startswith(("+", "where"))), "") or (lines[0] if lines else "")
    return " ".join(chosen.split())[:500]


def operator_of(name: str) -> str:
    """``test_silu.py``, ``tests.ttnn.test_silu``, ``test_silu_results.txt`` -> ``silu``."""
    word = name.rsplit("/", 1)[-1]
    word = re.sub(r"\.(py|txt|log|xml)$", "", word).rsplit(".", 1)[-1]
    word = re.sub(r"_results?$", "", word)
    return re.sub(r"^test_", "", word) or word
