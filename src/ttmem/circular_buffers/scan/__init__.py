# SPDX-License-Identifier: Apache-2.0
"""Circular and dataflow buffers in C++: what host code declares, whether it fits, and which rules kernels break."""

from ttmem.circular_buffers.scan.host.programs import ProgramTotals, RangeTotal, Sized
from ttmem.circular_buffers.scan.model import Declaration, Finding, KernelFigures, Skipped
from ttmem.circular_buffers.scan.rules import RULES, Rule
from ttmem.circular_buffers.scan.scanning import Scan, parse_bindings, scan

__all__ = [
    "RULES",
    "Declaration",
    "Finding",
    "KernelFigures",
    "ProgramTotals",
    "RangeTotal",
    "Rule",
    "Scan",
    "Sized",
    "Skipped",
    "parse_bindings",
    "scan",
]
