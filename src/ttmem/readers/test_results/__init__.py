# SPDX-License-Identifier: Apache-2.0
"""Test results of other tools: pytest logs, JUnit XML, tt-metal's sweep framework. Each test once, whoever says it.

A module reads one format: ``KIND`` names it, ``sniff`` knows it by its first bytes, ``read`` gives its results.
"""

from ttmem.readers.test_results.folder import FolderResults, read_place

__all__ = ["FolderResults", "read_place"]
