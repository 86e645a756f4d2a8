# SPDX-License-Identifier: Apache-2.0
"""Results of other tools: pytest logs, JUnit XML, tt-metal's sweep framework. Each test once, whoever tells of it."""

from ttmem.sweep.foreign.folder import ForeignResults, read_foreign

__all__ = ["ForeignResults", "read_foreign"]
