# SPDX-License-Identifier: Apache-2.0
"""Which memory the replays of a trace write to: where the operations of its capture had their buffers.

A trace keeps addresses, not buffers. What was freed inside or after the capture can be given to others, and a replay
then overwrites it. So the places are remembered until the trace is released, and who gets to lie there is told.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from .ledger import Buffer


class _Range(NamedTuple):
    memory: str
    begin: int
    end: int


class Traces:
    """Of all devices of one process."""

    def __init__(self) -> None:
        self._open: dict[int, Any] = {}
        """The trace that is being captured, by the number of its device."""
        self._ranges: dict[tuple[int, str], list[_Range]] = {}
        """By device and trace."""

    def begin(self, device: Any, trace: Any) -> None:
        """What the device takes from now on belongs to the trace."""
        self._open[device.id()] = trace
        self._ranges[device.id(), str(trace)] = []

    def end(self, device: Any) -> str:
        """What is known of it: how much must stay, in words; empty when nothing was captured."""
        number = device.id()
        trace = self._open.pop(number, None)
        total: Counter[str] = Counter()
        for one in _joined(self._ranges.get((number, str(trace)), [])):
            total[one.memory] += one.end - one.begin
        return ", ".join(f"{size} B per bank of {memory}" for memory, size in sorted(total.items()))

    def is_open(self, device: Any) -> bool:
        """Whether one is being captured on a device."""
        return device.id() in self._open

    def release(self, device: Any, trace: Any) -> None:
        """Nothing is replayed any more."""
        self._ranges.pop((device.id(), str(trace)), None)

    def closed(self, device: Any) -> None:
        """Traces go with their device."""
        number = device.id()
        self._open.pop(number, None)
        self._ranges = {key: ranges for key, ranges in self._ranges.items() if key[0] != number}

    def took(self, device: Any, born: Iterable[Buffer]) -> int:
        """An operation took these; how many bytes per bank of them a replay of an earlier trace overwrites."""
        if not self._ranges:
            return 0
        number = device.id()
        new = [_Range(one.memory, one.address, one.address + one.bytes_per_bank) for one in born]
        own = (number, str(self._open[number])) if number in self._open else None
        endangered = sum(
            max(0, min(there.end, one.end) - max(there.begin, one.begin))
            for key, ranges in self._ranges.items()
            if key[0] == number and key != own
            for there in _joined(ranges)
            for one in new
            if one.memory == there.memory
        )
        if own is not None:
            self._ranges[own] += new
        return endangered


def _joined(ranges: Iterable[_Range]) -> list[_Range]:
    """Each address once."""
    joined: list[_Range] = []
    for one in sorted(ranges):
        if joined and joined[-1].memory == one.memory and one.begin <= joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, one.end))
        else:
            joined.append(one)
    return joined
