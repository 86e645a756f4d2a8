# SPDX-License-Identifier: Apache-2.0
"""Why a model could not be traced, told apart because the user must do different things."""

from __future__ import annotations


class TracerError(Exception):
    """``kind`` tells the other side what to make of it."""

    kind = "refused"


class BadTargetError(TracerError):
    """No such file, function, config or input."""

    kind = "bad_target"


class MissingPackageError(TracerError):
    """The model's own package is not installed."""

    kind = "missing_package"


class RefusedError(TracerError):
    """The model cannot be built or run at this size."""

    kind = "refused"


def sentence(error: BaseException) -> str:
    """The first line that says something, bounded: frameworks answer with pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text[:300]
