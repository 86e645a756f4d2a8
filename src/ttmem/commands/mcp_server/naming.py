# SPDX-License-Identifier: Apache-2.0
"""The names of a call's arguments: former names go on to work, and a wrong one is answered as the command line does."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from ttmem.commands.mcp_server.verbs import VerbFailedError

_FORMER_NAMES: dict[str, dict[str, str]] = {"diff": {"a": "before", "b": "after"}}


def with_known_names(
    tool: str, names: Sequence[str], needed: Sequence[str], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments under the names of the parameters; raises ``VerbFailedError`` for a name that is none of them."""
    former = _FORMER_NAMES.get(tool, {})
    arguments = {former.get(name, name) if name not in names else name: value for name, value in given.items()}
    unknown = [name for name in arguments if name not in names]
    missing = [name for name in needed if name not in arguments]
    if unknown:
        left = missing or [name for name in names if name not in arguments]
        close = difflib.get_close_matches(unknown[0], left, n=3, cutoff=0.5) or missing
        guess = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise VerbFailedError(f"'{tool}' has no parameter {unknown[0]!r}{guess} (it has {', '.join(names)})")
    if missing:
        raise VerbFailedError(f"'{tool}' needs {' and '.join(map(repr, missing))}")
    return arguments


def without_links(text: str) -> str:
    """A validation error without the pages of the library that found it."""
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith("For further information"))
