# SPDX-License-Identifier: Apache-2.0
"""Cases x engine -> results: plan, journal, run, resume, distribute, limits, advice, summaries."""

from ttmem.base.lazy import callable_room

callable_room(__name__, "ttmem.commands.library.sweep")
