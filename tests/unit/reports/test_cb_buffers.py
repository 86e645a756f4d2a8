# SPDX-License-Identifier: Apache-2.0
"""Captured buffers in ``cb profile``."""

from __future__ import annotations

from ttmem.engines.worker.graph_nodes import CapturedStaticBuffer
from ttmem.reports.cb_profile import _describe_buffer


def test_a_buffer_without_an_address_has_none_in_the_document() -> None:
    buffer = CapturedStaticBuffer("cb", 4096, (), False, 0, 0)
    assert _describe_buffer(buffer).address is None
