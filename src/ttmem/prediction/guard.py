# SPDX-License-Identifier: Apache-2.0
"""Checks an operation before it runs: what it will need is known, so a program can warn, stop or choose another way.

    with ttmem.guard(device, "raise"):
        y = ttnn.matmul(a, b)          # raises ttmem.prediction.guard.WontFitError before anything is allocated

Inside the user's program: the standard library and ttnn alone.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from ttmem.base.errors import BadInputError, TtmemError
from ttmem.engines.worker.library import Patches
from ttmem.engines.worker.peaks import compute_allowed_bytes
from ttmem.prediction.live_twin import LiveTwin
from ttmem.twin.errors import DeviceFailureError, OutOfMemoryError
from ttmem.twin.operations import EXACT, UNKNOWN
from ttmem.twin.tensor_spec import InvalidSpecError

WARN, RAISE = "warn", "raise"


class WontFitError(TtmemError):
    """An operation does not fit into the device's memory as it is now."""

    exit_code = 1


class MemoryGuardWarning(UserWarning):
    """The same as a warning; the operation runs nevertheless."""


@dataclass(frozen=True, slots=True)
class CallVerdict:
    """The prediction for a call."""

    operation: str
    fits: bool | None
    """None if there is no rule for this call."""
    confidence: str
    message: str = ""
    """Why it does not fit, in the library's words, or why that is unknown."""
    peak_bytes_per_bank: Mapping[str, int] = field(default_factory=dict)
    """Peak of each memory; a lower bound if the confidence is ``bounded``."""
    memory: str = ""
    """The memory that is too small."""
    needed_bytes_per_bank: int = 0
    largest_free_bytes_per_bank: int = 0


OnFinding = Callable[[CallVerdict], None]


class DeviceGuard:
    """Guards one open device: ``check`` predicts a single call, a ``with`` block all calls."""

    def __init__(self, device: Any, action: str | OnFinding, limit: str | Mapping[str, str] | None) -> None:
        if not callable(action) and action not in (WARN, RAISE):
            raise BadInputError(f"unknown action '{action}'", hint="'warn', 'raise', or a function of the verdict")
        self.findings: list[CallVerdict] = []
        """Calls that cannot fit, in order."""
        self.checked = self.unknown = 0
        """Number of calls checked, and of those without a rule."""
        self._action = action
        self._live = LiveTwin(device)
        self._allowed = self._parse_limits(limit)
        self._patches = Patches()
        self._inside = threading.local()

    def _parse_limits(self, limit: str | Mapping[str, str] | None) -> dict[str, int]:
        said = {"DRAM": limit, "L1": limit} if isinstance(limit, str) else dict(limit or {})
        try:
            pools = {pool.memory.name: pool.bytes_per_bank for pool in self._live.twin.memory_map.pools}
            return {name.upper(): compute_allowed_bytes(text, pools[name.upper()]) for name, text in said.items()}
        except (ValueError, KeyError) as error:
            raise BadInputError(f"limit: {error}", hint="'90%', '700MiB', or {'DRAM': '90%', 'L1': '80%'}") from None

    def check(self, operation: Any, *arguments: Any, **options: Any) -> CallVerdict:
        """Predict a call without touching the device: ``guard.check(ttnn.matmul, a, b)``."""
        name = operation if isinstance(operation, str) else operation_name(operation)
        self._live.refresh()
        return self._judge(name, arguments, options)

    def fits(self, operation: Any, *arguments: Any, **options: Any) -> bool:
        """Return False if the call is known not to fit."""
        return self.check(operation, *arguments, **options).fits is not False

    def _judge(self, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> CallVerdict:
        twin = self._live.twin
        try:
            told = self._live.simulate(name, arguments, options)
        except OutOfMemoryError as error:
            told_peaks = dict(twin.peaks)
            return CallVerdict(
                name,
                fits=False,
                confidence=EXACT,
                message=error.message,
                peak_bytes_per_bank=told_peaks,
                memory=error.memory.name,
                needed_bytes_per_bank=error.bytes_per_bank,
                largest_free_bytes_per_bank=error.largest_free_bytes_per_bank,
            )
        except DeviceFailureError as error:
            return CallVerdict(name, False, EXACT, error.message, dict(twin.peaks), "L1")
        except (InvalidSpecError, TtmemError, AttributeError, TypeError) as error:
            return CallVerdict(name, None, UNKNOWN, str(error))  # the library will say what is wrong with the call
        if told.confidence == UNKNOWN:
            return CallVerdict(name, None, UNKNOWN, told.note)
        for memory, most in self._allowed.items():
            if twin.peaks.get(memory, 0) > most:
                message = f"{name} would fill {memory} to {twin.peaks[memory]} B per bank, over the limit of {most} B"
                return CallVerdict(name, False, told.confidence, message, dict(twin.peaks), memory)
        return CallVerdict(name, True, told.confidence, told.note, dict(twin.peaks))

    def __enter__(self) -> DeviceGuard:
        decorators = self._live.library.ttnn.decorators
        for kind in (decorators.FastOperation, decorators.Operation):
            self._patches.replace(kind, "__call__", self._wrap)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patches.undo()

    def _wrap(self, original: Any) -> Any:
        guard = self

        @functools.wraps(original, updated=())
        def check_and_call(self_: Any, *arguments: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            if getattr(guard._inside, "known", False):  # part of an operation that was checked as a whole
                return original(self_, *arguments, **options)
            verdict = guard.check(self_.python_fully_qualified_name, *arguments, **options)
            guard.checked += 1
            guard.unknown += verdict.fits is None
            if verdict.fits is False:
                guard.findings.append(verdict)
                guard._act(verdict)
            guard._inside.known = verdict.fits is not None
            try:
                return original(self_, *arguments, **options)
            finally:
                guard._inside.known = False

        return check_and_call

    def _act(self, verdict: CallVerdict) -> None:
        if callable(self._action):
            self._action(verdict)
        elif self._action == RAISE:
            raise WontFitError(f"{verdict.operation}: {verdict.message}", hint=HINT)
        else:
            warnings.warn(f"{verdict.operation}: {verdict.message}", MemoryGuardWarning, stacklevel=4)


HINT = "free something first, choose another memory or data type, or call it through ttmem.chunked"


def guard(device: Any, action: str | OnFinding = WARN, *, limit: str | Mapping[str, str] | None = None) -> DeviceGuard:
    """Check every operation before it runs, in a ``with`` block, or single ones with ``check``.

    ``action``: ``"warn"``, ``"raise"``, or a function of the verdict (which may raise). ``limit``: ``"90%"`` of a
    bank or ``"700MiB"`` per bank, for both DRAM and L1, or per memory.
    """
    return DeviceGuard(device, action, limit)


def operation_name(operation: Any) -> str:
    """Return ``ttnn.matmul`` for the library's own; the plain name of any other function."""
    name = getattr(operation, "python_fully_qualified_name", None) or getattr(operation, "__name__", "")
    return str(name)
