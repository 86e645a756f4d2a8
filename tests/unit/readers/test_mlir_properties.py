# SPDX-License-Identifier: Apache-2.0
"""Properties behind values with brackets of several kinds."""

from __future__ import annotations

from ttmem.readers.mlir.syntax import parse_properties


def test_what_follows_a_bracket_in_a_bracket_is_read() -> None:
    found = parse_properties(b"value = dense<[1, 2]> : tensor<2xi32>, dim = 3 : si32, keep_dim = true")
    assert (found["dim"], found["keep_dim"]) == (3, True)
