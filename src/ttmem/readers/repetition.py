# SPDX-License-Identifier: Apache-2.0
"""Whether a stream repeats one text of any length, as ``while :; do cat run.log; done`` does."""

from hashlib import blake2b

from ttmem.base.limits import REPEATED_BYTES, REPEATED_STREAM_BYTES, REPEATED_TIMES

_LEAST_COMPARED = 64 << 10
"""Short texts are compared many at a time."""


class Repetition:
    """Looks for 16 KiB of a text again, then compares what follows piece by piece of the length between them.

    It reads every byte twice at most and keeps 32 KiB. Where two pieces differ, and where the 16 KiB do not come again,
    it starts again from there, and looks farther.
    """

    def __init__(self) -> None:
        self._most_passed_bytes = 1 << 20
        self._start()

    def _start(self) -> None:
        self._beginning = self._kept = b""
        self._passed_bytes = self._period = self._times = 0

    @property
    def is_established(self) -> bool:
        """Whether the text was repeated so often that it hardly ends."""
        return self._times >= max(REPEATED_TIMES, REPEATED_STREAM_BYTES // (self._period or 1))

    def take(self, text: bytes) -> None:
        """Look at what follows."""
        while text:
            text = self._compare(text) if self._period else self._search(text)

    def _search(self, text: bytes) -> bytes:
        """Look for the beginning; returns what has to be compared."""
        text = self._kept + text
        if not self._beginning:
            if len(text) <= REPEATED_BYTES:
                self._kept = text
                return b""
            self._beginning, text, self._passed_bytes = text[:REPEATED_BYTES], text[1:], 1
        at = text.find(self._beginning)
        if at < 0:
            self._kept = text[1 - REPEATED_BYTES :]
            self._passed_bytes += len(text) - len(self._kept)
            if self._passed_bytes > self._most_passed_bytes:
                self._most_passed_bytes *= 2
                self._start()
            return b""
        distance = self._passed_bytes + at
        self._period = distance * -(-_LEAST_COMPARED // distance)
        self._last = b""
        self._next_piece()
        return text[at:]

    def _compare(self, text: bytes) -> bytes:
        """Compare up to the end of the piece; returns what follows it."""
        part, rest = text[: self._left_bytes], text[self._left_bytes :]
        self._hash.update(part)
        self._left_bytes -= len(part)
        if self._left_bytes:
            return b""
        digest = self._hash.digest()
        if self._last and digest != self._last:
            self._start()
            return rest
        self._times += 1
        self._last = digest
        self._next_piece()
        return rest

    def _next_piece(self) -> None:
        self._hash, self._left_bytes = blake2b(digest_size=16), self._period
