# SPDX-License-Identifier: Apache-2.0
"""A macro has a value only if it is a whole expression."""

from __future__ import annotations

import pytest

from support.scan_sources import buffers, config, host


@pytest.mark.parametrize("text", ["4 +", "3) (", "2 * (4", "4 tiles"])
def test_a_macro_that_is_no_whole_expression_has_no_value(text: str) -> None:
    (buffer,) = buffers(f"#define TILES {text}\n" + host(config("TILES * 2048")))
    assert buffer.total_bytes is None


def test_a_macro_with_an_expression_has_its_value() -> None:
    (buffer,) = buffers("#define TILES (2 * 4)\n" + host(config("TILES * 2048")))
    assert buffer.total_bytes == 16384
