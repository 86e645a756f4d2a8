# SPDX-License-Identifier: Apache-2.0
"""The errors that a user can meet, each with its exit code.

Only ``ttmem.commands.program`` prints these; everything else raises them.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class TtmemError(Exception):
    """An error with its place, a hint for the next step, and an exit code."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "", where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        """Return one line: the place, if it is known, then the message."""
        return f"{self.where}: {self.message}" if self.where else self.message


class BadInputError(TtmemError):
    """The user's file, text or option cannot be used (exit 2)."""


class MissingPartError(TtmemError):
    """An engine or an optional dependency is not installed (exit 3); the hint is the command that installs it."""

    exit_code = 3


@contextmanager
def as_bad_input(where: str, what: str) -> Iterator[None]:
    """Report an unexpected error of a reader as bad input in ``where``, not as an error of the program.

    Readers report what they miss and where. This covers the rest: a number that is a list, a key of another type, a
    document that is nested too deeply.
    """
    try:
        yield
    except (TtmemError, OSError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise BadInputError(
            f"cannot be understood as {what} ({reason})",
            where=where,
            hint="it is damaged or of another kind; if it is neither, report it with what --debug shows",
        ) from error
