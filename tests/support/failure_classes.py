# SPDX-License-Identifier: Apache-2.0
"""The classes of failures of the contract (DESIGN 3.6): the knowledge has these and no others."""

from __future__ import annotations

CLASSES = (
    "oom/too-big",
    "oom/capacity",
    "oom/fragmented",
    "oom/unconfigured",
    "oom/unknown",
    "buffers/clash",
    "buffers/overflow",
    "buffers/config",
    "trace/region",
    "trace/unsafe",
    "kernel/config",
    "kernel/args",
    "shard/spec",
    "page/size",
    "host/memory",
    "compile/memory",
    "lifetime/use-after-free",
    "device",
    "crash",
    "timeout",
    "none",
)
