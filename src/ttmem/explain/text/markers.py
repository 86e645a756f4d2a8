# SPDX-License-Identifier: Apache-2.0
"""Which lines of a log deserve a second look: plain byte strings, so that a reader can ask ``marker in line``."""

from __future__ import annotations

MARKERS: tuple[bytes, ...] = (
    # The wording of the failures that matter most, for prints without any envelope.
    b"Out of Memory",
    b"Statically allocated",  # circular or dataflow buffers: clash and overflow
    # The envelopes that carry every other failure of the library and of its callers.
    b"TT_",  # TT_FATAL, TT_THROW, TT_ASSERT
    b"FATAL",  # level of the tt-mlir runtime and of tt-metal until 2025
    b"critical",  # level of tt-metal since 2025
    b"rror",  # RuntimeError, error: (MLIR), Fatal Python error, Error code
    # What only a warning or the shell says.
    b"active trace",
    b"egmentation fault",
    b"Aborted",
    b"Killed",
    b"Timeout",
)
"""Each line that begins a failure contains one of these; lines of ordinary runtime logs contain none.

A hit proves nothing (``find_failures`` decides); a miss is final. More than the few wordings would need, because a
failure that is missed costs more than eleven substring tests on a line that nothing else recognised.
"""

EXPECTED_BEGIN = "[EXPECTED_ERROR BEGIN]"
EXPECTED_END = "[EXPECTED_ERROR END]"
"""tt-metal's tests bracket the errors they provoke; nothing between the two is a failure. A reader that hands over
single lines has to watch for these itself, because the bracket may be far away."""
