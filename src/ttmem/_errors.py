# SPDX-License-Identifier: Apache-2.0
"""Every failure that a user can cause or meet, with the exit code it ends in.

Only ``ttmem.commands.main`` prints these; everything else raises them.
"""


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
