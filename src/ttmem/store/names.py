# SPDX-License-Identifier: Apache-2.0
"""Names of stored reports: folders that stay inside the store, on whatever file system it lies."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator

from ttmem._errors import BadInputError

_LONGEST_BYTES = 120
"""File systems end at 255 bytes; ``_inputs_registry.json`` and a number come on top."""
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
"""Home folders on network shares may be served by a system that takes these for devices."""


def check_name(name: str) -> str:
    """The name, if it can be a folder of the store; what could leave the folder or hide in it is refused."""
    usable = usable_name(name)
    if usable == unicodedata.normalize("NFC", name):
        return usable
    hint = f"letters, digits and ._+@=- are fine, for example '{usable}'"
    raise BadInputError(f"'{name.encode('unicode_escape').decode()}' cannot be the name of a report", hint=hint)


def usable_name(name: str) -> str:
    """The closest name that is safe as a folder, as an argument and in a shell; a safe one stays as it is."""
    name = unicodedata.normalize("NFC", name)
    safe = re.sub(r"[^\w.+@=-]+", "_", name)
    if safe != name or safe[:1] in (".", "-"):
        safe = safe.lstrip("._-").rstrip("_")
    if safe.split(".")[0].lower() in _DEVICES:
        safe = f"_{safe}"
    while len(safe.encode()) > _LONGEST_BYTES:
        safe = safe[:-1]
    return safe or "report"


def numbered(name: str) -> Iterator[str]:
    """The name, then ``name-2``, ``name-3``, ..."""
    yield name
    for number in itertools.count(2):
        yield f"{name}-{number}"
