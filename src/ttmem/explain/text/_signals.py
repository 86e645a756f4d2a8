# SPDX-License-Identifier: Apache-2.0
"""How a process died, from the word or the exit code that reports it."""

from __future__ import annotations

_SIGNAL_OF_WORD = {
    "segmentation fault": "SIGSEGV",
    "aborted": "SIGABRT",
    "abort": "SIGABRT",
    "bus error": "SIGBUS",
    "illegal instruction": "SIGILL",
    "floating point exception": "SIGFPE",
    "killed": "SIGKILL",
}
_SIGNAL_OF_NUMBER = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


def signal_of(word: str | None, exit_code: int | None) -> str | None:
    """The signal's name; shells report a death by signal n as exit code 128 + n (Linux numbers)."""
    if word is not None:
        return _SIGNAL_OF_WORD.get(word.lower(), word if word.startswith("SIG") else None)
    if exit_code is not None:
        return _SIGNAL_OF_NUMBER.get(exit_code - 128)
    return None
