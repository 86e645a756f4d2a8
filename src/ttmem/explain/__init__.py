# SPDX-License-Identifier: Apache-2.0
"""Failure text -> class and arithmetic. Wordings and classes are data (``knowledge/``); there is one classifier."""

from __future__ import annotations

from ttmem.explain.classes import CLASSES, classify_oom
from ttmem.explain.deduplicate import deduplicate
from ttmem.explain.failure import Failure
from ttmem.explain.find import find_failures
from ttmem.explain.markers import EXPECTED_BEGIN, EXPECTED_END, MARKERS

__all__ = [
    "CLASSES",
    "EXPECTED_BEGIN",
    "EXPECTED_END",
    "MARKERS",
    "Failure",
    "classify_oom",
    "deduplicate",
    "find_failures",
]
