# SPDX-License-Identifier: Apache-2.0
"""Every failure that a user can cause or meet, with the exit code it ends in.

Only ``ttmem.commands.main`` prints these; everything else raises them.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class TtmemError(Exception):
    """What went wrong, where, and what to do next; the exit code travels with the error."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "", where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        """One line: where it is known, then what."""
        return f"{self.where}: {self.message}" if self.where else self.message


class BadInputError(TtmemError):
    """The user's file, text or option cannot be used (exit 2)."""


class MissingPartError(TtmemError):
    """An engine or an optional dependency is not installed (exit 3); the hint is the command that installs it."""

    exit_code = 3


@contextmanager
def blaming(where: str, what: str) -> Iterator[None]:
    """Reading ``where``: whatever a reader stumbles over in there is a fault of the source, not of the program.

    Readers say what they miss and where. This is for what nobody thought of: a number that is a list, a key of another
    type, a depth that no parser stands.
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
