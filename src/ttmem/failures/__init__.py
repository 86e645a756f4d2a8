# SPDX-License-Identifier: Apache-2.0
"""Failure text -> class, arithmetic, cause, remedies. What is known is data (``knowledge/``); one classifier for all.

``find_failures`` reads, ``diagnose`` explains one failure, ``explain`` does both. Readers need the first alone, so what
the others need (the twin) is imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.base.lazy import lazy_names
from ttmem.failures.failure import Failure as Failure
from ttmem.failures.failure import classify_oom as classify_oom
from ttmem.failures.text.clean_text import EXPECTED_BEGIN as EXPECTED_BEGIN
from ttmem.failures.text.clean_text import EXPECTED_END as EXPECTED_END
from ttmem.failures.text.find import deduplicate as deduplicate
from ttmem.failures.text.find import find_failures as find_failures
from ttmem.failures.text.find import is_echo as is_echo
from ttmem.failures.text.scan import FAILURE_WORDS as FAILURE_WORDS

if TYPE_CHECKING:
    from ttmem.failures.diagnosis.board_guess import BoardGuess as BoardGuess
    from ttmem.failures.diagnosis.diagnose import Diagnosis as Diagnosis
    from ttmem.failures.diagnosis.diagnose import Figure as Figure
    from ttmem.failures.diagnosis.diagnose import Remedy as Remedy
    from ttmem.failures.diagnosis.diagnose import diagnose as diagnose
    from ttmem.failures.diagnosis.diagnose import diagnose_all as diagnose_all
    from ttmem.failures.diagnosis.diagnose import explain as explain
    from ttmem.failures.diagnosis.failure_state import LiveTensor as LiveTensor
    from ttmem.failures.diagnosis.memory_diagram import Picture as Picture
    from ttmem.failures.diagnosis.memory_diagram import Stretch as Stretch
    from ttmem.failures.diagnosis.tensor_guess import TensorGuess as TensorGuess
    from ttmem.failures.text.context import Context as Context
    from ttmem.failures.text.context import KnownTensor as KnownTensor
    from ttmem.failures.text.context import read_context as read_context
    from ttmem.failures.text.find_in_stream import FailureSearch as FailureSearch
    from ttmem.failures.text.find_in_stream import find_in_chunks as find_in_chunks
    from ttmem.failures.text.find_in_stream import find_in_text as find_in_text

_HOMES = {
    "diagnosis.board_guess": "BoardGuess",
    "diagnosis.diagnose": "Diagnosis Figure Remedy diagnose diagnose_all explain",
    "diagnosis.memory_diagram": "Picture Stretch",
    "diagnosis.failure_state": "LiveTensor",
    "diagnosis.tensor_guess": "TensorGuess",
    "text.context": "Context KnownTensor read_context",
    "text.find_in_stream": "FailureSearch find_in_chunks find_in_text",
}
__getattr__ = lazy_names(__name__, {name: home for home, names in _HOMES.items() for name in names.split()})
