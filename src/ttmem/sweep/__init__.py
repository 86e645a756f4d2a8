# SPDX-License-Identifier: Apache-2.0
"""Cases x engine -> outcomes: plan, journal, run, resume, distribute, limits, advice, summaries.

``rows``, ``tests`` and ``summary`` are plain data and know no engine, so that reports may use them.
"""

from ttmem._lazy import callable_room
from ttmem.sweep.rows import STATUSES, Row

__all__ = ["STATUSES", "Row"]

callable_room(__name__, "ttmem.library.sweep")
