# SPDX-License-Identifier: Apache-2.0
"""The interface of all engines: how one is opened and asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from ttmem.failures.outcome import Outcome

Step = Mapping[str, Any]
"""A step of a case, such as ``{"alloc": "a", "shape": [64, 64], ...}``; see ``worker.steps`` for all of them."""
Steps = Sequence[Step]
ScriptEntry = Mapping[str, Any]
Message = dict[str, Any]

TWIN, MOCK, CARD = "twin", "mock", "card"
ENGINES = (TWIN, MOCK, CARD)
EngineT = TypeVar("EngineT", bound="Engine")


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings for opening a board, and for starting a worker of the real library."""

    board: str = "n150"
    card: bool = False
    python: str | None = None
    l1_small_bytes: int = 0
    trace_region_bytes: int = 0
    worker_l1_bytes: int | None = None
    mesh: tuple[int, int] | None = None
    """None opens one chip: a mesh has the memory map of one."""
    timeout_seconds: float = 60.0
    memory_cap_bytes: int | None = 8 << 30
    """Limit of a request's data on the host; beyond, the request fails by itself."""
    measure_programs: bool = True
    release: str | None = None
    """The ttnn whose bank tables and rules the twin uses; None: the pinned one. The real library has its own."""


class Engine(ABC):
    """A board that answers steps: the twin, or the real library on a mock board or a card."""

    def __init__(self, settings: EngineSettings | None = None, **changes: Any) -> None:
        self.settings = settings or EngineSettings(**changes)

    def ask(self, steps: Steps, *, timeout: float | None = None, isolated: bool = True, stop: bool = False) -> Outcome:
        """Return the outcome of the steps. ``timeout`` bounds each step; ``stop`` ends at the first step that fails.

        Nothing is left on the device, unless ``isolated`` is False, which is faster.
        """
        return next(self.ask_all([steps], timeout=timeout, isolated=isolated, stop=stop))

    @abstractmethod
    def ask_all(
        self, cases: Sequence[Steps], *, timeout: float | None = None, isolated: bool = True, stop: bool = False
    ) -> Iterator[Outcome]:
        """Yield one outcome per case, in order and as they arrive."""

    @abstractmethod
    def play(self, script: Sequence[ScriptEntry], *, timeout: float | None = None) -> Iterator[Message]:
        """Yield a recorder's messages while a script is played on an empty board (see ``worker.player`` for its
        entries).

        The last message is ``{"played": true, "signal": 0, "timed_out": false}``.
        """

    def close(self) -> None:  # noqa: B027 - the twin has nothing to give back
        """Release processes and files, where there are any."""

    def __enter__(self: EngineT) -> EngineT:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_engine(name: str, settings: EngineSettings) -> Engine:
    if name == TWIN:
        from ttmem.engines.twin import TwinEngine

        return TwinEngine(settings)
    from ttmem.engines.ttnn import TtnnEngine

    return TtnnEngine(settings)
