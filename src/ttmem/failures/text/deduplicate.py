# SPDX-License-Identifier: Apache-2.0
"""Each failure once, without its echoes: the metal line, the PJRT line and the Python line are prints of one."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, islice

from ttmem.failures.failure import PRINT_ONLY, Failure
from ttmem.failures.knowledge.tables import template_of

_CANDIDATES = 16
"""How many earlier failures one print is compared with; keeps a log of ten thousand failures linear."""
_CORE_WIDTH = 24
_ASSERTS = ("X1", "R1")
_THROWN = "Z19"
"""``terminate called after throwing ...``: the exception's message follows."""


def deduplicate(failures: Iterable[Failure]) -> list[Failure]:
    """The failures in the order of their first print, each with the figures of its fullest print.

    Expects them in the order of the text. A print that says less (cut, or retold by a caller) is the same failure as
    one that says the same and more; what only reports the end that another failure brought about is left out.
    """
    unique: dict[str, tuple[int, Failure]] = {}
    for position, failure in enumerate(_without_echoes(list(failures))):
        first, earlier = unique.get(failure.key, (position, failure))
        unique[failure.key] = (first, _merged(earlier, failure))
    families: dict[str, _Family] = {}
    fullest_first = sorted(
        unique.values(), key=lambda entry: (-len(entry[1].numbers), -len(entry[1].message), entry[0])
    )
    for position, failure in fullest_first:
        families.setdefault(template_of(failure.template).family, _Family()).add(position, failure)
    kept = chain.from_iterable(family.kept for family in families.values())
    return [failure for _, failure in sorted(kept, key=lambda entry: entry[0])]


def _is_bare(failure: Failure) -> bool:
    """An assert that was printed without its message, as pytest's summary does: all it says is where it was raised."""
    return failure.message.endswith(failure.texts.get("condition", "\0")) and " @ " in failure.message


def _is_error(failure: Failure) -> bool:
    return rank_of(failure) == "error" and failure.failure_class != "crash"


def _is_of_firmware_start(failure: Failure) -> bool:
    """Whether it is printed on the way to a firmware that does not start, and explained by that failure."""
    return failure.is_warning or template_of(failure.template).family == "device-timeout"


def is_echo(failure: Failure) -> bool:
    """Whether it counts only where no error is: a wrapper of one, or what a planner says about a choice it dropped."""
    return template_of(failure.template).rank in ("wrapper", "chatter")


def rank_of(failure: Failure) -> str:
    """The rank of its template; what an exception carries is an error also where the wording is a warning's."""
    rank = template_of(failure.template).rank
    return "error" if rank == "warning" and not failure.is_warning else rank


def _without_echoes(failures: list[Failure]) -> list[Failure]:
    """Without wrappers and deaths that the other failures explain.

    ``Error code: 13`` says that something failed; an abort after an error is how an uncaught exception ends a
    process; a kill is explained by the host's own report of it; an assert without its message by one that has it.
    """
    ranks = [rank_of(failure) for failure in failures]
    sites = {failure.texts.get("file") for failure in failures if failure.failure_class != "none"} - {None}
    has_error = "error" in ranks
    host_killed = any("killer" in failure.texts for failure in failures)
    device_failed = any(
        failure.failure_class == "device" and not _is_of_firmware_start(failure) for failure in failures
    )
    kept: list[Failure] = []
    failed = chattered = False
    errors_left = sum(map(_is_error, failures))
    for failure, rank in zip(failures, ranks, strict=True):
        errors_left -= _is_error(failure)
        signal = failure.texts.get("signal") if failure.failure_class == "crash" else None
        is_explained = failed or (failure.template == _THROWN and errors_left)
        if (signal == "SIGABRT" and is_explained) or (signal == "SIGKILL" and host_killed):
            continue
        if device_failed and _is_of_firmware_start(failure):
            continue  # the cores that did not finish are those whose firmware did not start
        if rank in ("wrapper", "chatter") and (has_error or chattered):
            continue
        if failure.template in _ASSERTS and failure.texts.get("file") in sites and _is_bare(failure):
            continue
        failed = failed or rank == "error"
        chattered = chattered or rank == "chatter"  # an optimiser prints thousands: one stands for all
        kept.append(failure)
    return kept


class _Family:
    """The failures kept so far of one family, and the ways to find the one that a shorter print repeats."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, Failure]] = []
        self._by_figure: dict[tuple[str, int], list[int]] = {}
        self._by_core: dict[str, list[int]] = {}

    def add(self, position: int, failure: Failure) -> None:
        for index in islice(self._candidates(failure), _CANDIDATES):
            first, fuller = self.kept[index]
            if _repeats(failure, fuller):
                # Without figures it may as well repeat another one; but a process dies once.
                if failure.numbers or not fuller.numbers or failure.failure_class == "crash":
                    self.kept[index] = (min(first, position), _merged(fuller, failure))
                return
        index = len(self.kept)
        self.kept.append((position, failure))
        for figure in failure.numbers.items():
            self._by_figure.setdefault(figure, []).append(index)
        self._by_core.setdefault(failure.core_text[:_CORE_WIDTH], []).append(index)

    def _candidates(self, failure: Failure) -> Iterable[int]:
        if failure.numbers:
            return min((self._by_figure.get(figure, []) for figure in failure.numbers.items()), key=len)
        return chain(self._by_core.get(failure.core_text[:_CORE_WIDTH], ()), range(len(self.kept)))


def _repeats(failure: Failure, fuller: Failure) -> bool:
    """Whether everything that ``failure`` says, ``fuller`` says too (they are of one family)."""
    if failure.memory is not None and fuller.memory is not None and failure.memory != fuller.memory:
        return False
    if not failure.numbers.items() <= fuller.numbers.items():
        return False
    shared = (failure.texts.keys() & fuller.texts.keys()) - PRINT_ONLY
    if any(failure.texts[name] != fuller.texts[name] for name in shared):
        return False
    # Without figures only the words are left; two wordings of one family need not share them.
    return bool(
        failure.numbers or failure.template != fuller.template or fuller.message.startswith(failure.message.rstrip("."))
    )


def _merged(fuller: Failure, other: Failure) -> Failure:
    lines = [line for line in (fuller.line, other.line) if line is not None]
    return replace(fuller, texts={**other.texts, **fuller.texts}, line=min(lines) if lines else None)
