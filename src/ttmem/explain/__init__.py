# SPDX-License-Identifier: Apache-2.0
"""Failure text -> class, arithmetic, cause, remedies. What is known is data (``knowledge/``); one classifier for all.

``find_failures`` reads, ``diagnose`` explains one failure, ``explain`` does both. Readers need the first alone, so what
the others need (the twin) is imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem._lazy import callable_room, lazy_names
from ttmem.explain.classes import classify_oom
from ttmem.explain.failure import Failure
from ttmem.explain.text._cleaning import EXPECTED_BEGIN, EXPECTED_END
from ttmem.explain.text.deduplicate import deduplicate, is_echo
from ttmem.explain.text.find import find_failures
from ttmem.explain.text.scan import MARKERS

if TYPE_CHECKING:
    from ttmem.explain.diagnosis.builds import BoardGuess
    from ttmem.explain.diagnosis.diagnose import Diagnosis, Figure, Remedy, diagnose, diagnoses, explain
    from ttmem.explain.diagnosis.picture import Picture, Stretch
    from ttmem.explain.diagnosis.situation import LiveTensor
    from ttmem.explain.diagnosis.tensor_guess import TensorGuess
    from ttmem.explain.text.context import Context, KnownTensor, read_context
    from ttmem.explain.text.sources import Found, find_in_chunks, find_in_text

__all__ = [
    "EXPECTED_BEGIN",
    "EXPECTED_END",
    "MARKERS",
    "BoardGuess",
    "Context",
    "Diagnosis",
    "Failure",
    "Figure",
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
    "diagnosis.builds": "BoardGuess",
    "diagnosis.diagnose": "Diagnosis Figure Remedy diagnose diagnoses explain",
    "diagnosis.picture": "Picture Stretch",
    "diagnosis.situation": "LiveTensor",
    "diagnosis.tensor_guess": "TensorGuess",
    "text.context": "Context KnownTensor read_context",
    "text.sources": "Found find_in_chunks find_in_text",
}
__getattr__ = lazy_names(__name__, {name: home for home, names in _HOMES.items() for name in names.split()})
callable_room(__name__, "ttmem.library.explain")
