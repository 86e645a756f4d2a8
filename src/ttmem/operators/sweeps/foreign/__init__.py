# SPDX-License-Identifier: Apache-2.0
"""Test results of other tools: pytest logs, JUnit XML, tt-metal's sweep framework. Each test once, whoever says it.

A module reads one format and is named in ``READERS``; ``folder`` reads a place that holds several.
"""

from ttmem.readers.registry import Reader

TEST_RESULTS = "test results"
"""``read(text, source)`` gives a list of ``Result``."""
READERS = (
    Reader("ttmem.operators.sweeps.foreign.junit_xml", TEST_RESULTS),
    Reader("ttmem.operators.sweeps.foreign.sweep_csv", TEST_RESULTS),
    Reader("ttmem.operators.sweeps.foreign.sweep_json", TEST_RESULTS),
    Reader("ttmem.operators.sweeps.foreign.pytest_log", TEST_RESULTS),  # its lines may be inside cells of the others
)
"""In the order in which they are asked."""
