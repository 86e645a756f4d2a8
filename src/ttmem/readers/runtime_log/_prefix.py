# SPDX-License-Identifier: Apache-2.0
"""What launchers and CI put in front of a line (log-formats 1.5)."""

from __future__ import annotations

import re

MPI_TAG = re.compile(rb"\[\d+,(\d{1,9})\]<std(?:out|err)>:")
"""Open MPI's --tag-output; the second number is the rank."""
TIME_PREFIX = re.compile(rb"(?m)^(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,12})?Z )+")
"""GitHub Actions and ``docker logs -t`` (or both) put a time in front of every line; it would make every line new."""
PREFIX_BYTES = 200
"""Where a record's text begins at the latest in an ordinary line; only odd lines are searched further."""


def rank_of(line: bytes) -> int:
    """The MPI rank that wrote a line, -1 when it does not say."""
    if line.find(b"]<std", 0, PREFIX_BYTES) < 0:
        return -1
    found = MPI_TAG.search(line)
    return int(found[1]) if found else -1
