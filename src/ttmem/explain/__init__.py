# SPDX-License-Identifier: Apache-2.0
"""Failure text -> class, arithmetic, cause, remedies. What is known is data (``knowledge/``); one classifier for all.

``find_failures`` reads, ``diagnose`` explains one failure, ``explain`` does both. Readers need the first alone, so what
the others need (the twin) is imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.base.lazy import callable_room, lazy_names
from ttmem.explain.classes import classify_oom as classify_oom
from ttmem.explain.failure import Failure as Failure
from ttmem.explain.text._cleaning import EXPECTED_BEGIN as EXPECTED_BEGIN
from ttmem.explain.text._cleaning import EXPECTED_END as EXPECTED_END
from ttmem.explain.text.deduplicate import deduplicate as deduplicate
from ttmem.explain.text.deduplicate import is_echo as is_echo
from ttmem.explain.text.find import find_failures as find_failures
from ttmem.explain.text.scan import MARKERS as MARKERS

if TYPE_CHECKING:
    from ttmem.explain.diagnosis.builds import BoardGuess as BoardGuess
    from ttmem.explain.diagnosis.diagnose import Diagnosis as Diagnosis
    from ttmem.explain.diagnosis.diagnose import Figure as Figure
    from ttmem.explain.diagnosis.diagnose import Remedy as Remedy
    from ttmem.explain.diagnosis.diagnose import diagnose as diagnose
    from ttmem.explain.diagnosis.diagnose import diagnoses as diagnoses
    from ttmem.explain.diagnosis.diagnose import explain as explain
    from ttmem.explain.diagnosis.picture import Picture as Picture
    from ttmem.explain.diagnosis.picture import Stretch as Stretch
    from ttmem.explain.diagnosis.situation import LiveTensor as LiveTensor
    from ttmem.explain.diagnosis.tensor_guess import TensorGuess as TensorGuess
    from ttmem.explain.text.context import Context as Context
    from ttmem.explain.text.context import KnownTensor as KnownTensor
    from ttmem.explain.text.context import read_context as read_context
    from ttmem.explain.text.sources import Found as Found
    from ttmem.explain.text.sources import find_in_chunks as find_in_chunks
    from ttmem.explain.text.sources import find_in_text as find_in_text

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
