# SPDX-License-Identifier: Apache-2.0
"""Operation counts: everything executed, and what of it computes."""

from __future__ import annotations

from support.build_profile import ProfileBuilder, tensor
from ttmem.analysis.distribution import Distribution, distribution

T = tensor(32, 32)


def test_bookkeeping_is_executed_but_computes_nothing() -> None:
    build = ProfileBuilder()
    build.rank(0)
    build.operation("ttnn.get_device")
    build.operation("ttnn.matmul", results={"%1": T}, location="a")
    build.operation("ttnn.matmul", results={"%2": T}, location="b")
    build.operation("ttnn.add")
    build.operation("ttnn.deallocate", operands={"%1": T})
    build.operation("ttnn.deallocate", operands={"%2": T})
    build.rank(1)
    build.operation("ttnn.add")
    profile = build.build()
    both = distribution(profile)
    assert both == Distribution(
        executed=7,
        compute=4,
        by_name={"ttnn.add": 2, "ttnn.deallocate": 2, "ttnn.matmul": 2, "ttnn.get_device": 1},
    )
    assert list(both.by_name) == ["ttnn.add", "ttnn.deallocate", "ttnn.matmul", "ttnn.get_device"]
    assert distribution(profile, 1) == Distribution(executed=1, compute=1, by_name={"ttnn.add": 1})


def test_nothing_executed() -> None:
    assert distribution(ProfileBuilder().build()) == Distribution(executed=0, compute=0, by_name={})
