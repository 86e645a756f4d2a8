# SPDX-License-Identifier: Apache-2.0
"""Failure text -> class, arithmetic, cause, remedies. What is known is data (``knowledge/``); one classifier for all.

``find_failures`` reads, ``diagnose`` explains one failure, ``explain`` does both. Readers need the first alone, so what
the others need (the twin) is imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.explain.classes import CLASSES, classify_oom
from ttmem.explain.deduplicate import deduplicate, is_echo
from ttmem.explain.failure import Failure
from ttmem.explain.find import find_failures
from ttmem.explain.markers import EXPECTED_BEGIN, EXPECTED_END, MARKERS

if TYPE_CHECKING:
    from ttmem.explain.builds import BoardGuess
    from ttmem.explain.context import Context, read_context
    from ttmem.explain.diagnosis import Diagnosis, Figure, Finding, Remedy, diagnose
    from ttmem.explain.picture import Picture, Stretch
    from ttmem.explain.situation import LiveTensor
    from ttmem.explain.sources import Found, diagnoses, explain, find_in_chunks, find_in_text
    from ttmem.explain.tensor_guess import KnownTensor, TensorGuess

__all__ = [
    "CLASSES",
    "EXPECTED_BEGIN",
    "EXPECTED_END",
    "MARKERS",
    "BoardGuess",
    "Context",
    "Diagnosis",
    "Failure",
    "Figure",
    "Finding",
    "Found",
    "KnownTensor",
    "LiveTensor",
    "Picture",
    "Remedy",
    "Stretch",
    "TensorGuess",
    "classify_oom",
    "deduplicate",
    "diagnose",
    "diagnoses",
    "explain",
    "find_failures",
    "find_in_chunks",
    "find_in_text",
    "is_echo",
    "read_context",
]

_HOMES = {
    "BoardGuess": "builds",
    "Context": "context",
    "read_context": "context",
    "Diagnosis": "diagnosis",
    "Figure": "diagnosis",
    "Finding": "diagnosis",
    "Remedy": "diagnosis",
    "diagnose": "diagnosis",
    "Picture": "picture",
    "Stretch": "picture",
    "LiveTensor": "situation",
    "Found": "sources",
    "diagnoses": "sources",
    "explain": "sources",
    "find_in_chunks": "sources",
    "find_in_text": "sources",
    "KnownTensor": "tensor_guess",
    "TensorGuess": "tensor_guess",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
