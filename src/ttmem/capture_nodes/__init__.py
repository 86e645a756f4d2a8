# SPDX-License-Identifier: Apache-2.0
"""What the nodes of a ttnn graph capture say: the one place that knows how releases spell it.

The standard library alone, and relative imports: the worker loads this folder from its files, in an interpreter that
need not have ttmem (``engines/worker/start.py``).
"""

from .core_ranges import CoreRectangle, core_rectangles
from .parameters import HOST, LARGEST_NUMBER, Params, flag, memory_named, memory_of, number, text, whole_number
from .programs import (
    CIRCULAR,
    DATAFLOW,
    SCRATCHPAD,
    CapturedProgram,
    Node,
    StaticBuffer,
    device_program,
    innermost,
    nodes_of,
    program_key,
    programs_of,
    static_buffer,
    used_cached_programs,
    worst_core,
)

__all__ = [
    "CIRCULAR",
    "DATAFLOW",
    "HOST",
    "LARGEST_NUMBER",
    "SCRATCHPAD",
    "CapturedProgram",
    "CoreRectangle",
    "Node",
    "Params",
    "StaticBuffer",
    "core_rectangles",
    "device_program",
    "flag",
    "innermost",
    "memory_named",
    "memory_of",
    "nodes_of",
    "number",
    "program_key",
    "programs_of",
    "static_buffer",
    "text",
    "used_cached_programs",
    "whole_number",
    "worst_core",
]
