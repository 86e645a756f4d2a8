# SPDX-License-Identifier: Apache-2.0
"""``find_failures``: search a text for failures, each once, without its echoes.

The metal line, the PJRT line and the Python line of a failure are prints of one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

from ttmem.failures.failure import PRINT_ONLY, Failure, check_statistics, classify_oom_figures
from ttmem.failures.knowledge.tables import Template, find_template, load_entries, load_facts
from ttmem.failures.text.clean_text import (
    CleanText,
    Hit,
    find_envelopes,
    find_exception_sites,
    is_thrown,
    is_within_error,
    strip_source_suffix,
)
from ttmem.failures.text.template import Match, find_anchor, find_matches

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
    for position, failure in enumerate(_drop_echoes(list(failures))):
        first, earlier = unique.get(failure.key, (position, failure))
        unique[failure.key] = (first, _merge(earlier, failure))
    families: dict[str, _Family] = {}
    fullest_first = sorted(
        unique.values(), key=lambda entry: (-len(entry[1].numbers), -len(entry[1].message), entry[0])
    )
    for position, failure in fullest_first:
        families.setdefault(find_template(failure.template).family, _Family()).add(position, failure)
    kept = chain.from_iterable(family.kept for family in families.values())
    return [failure for _, failure in sorted(kept, key=lambda entry: entry[0])]


def _is_bare(failure: Failure) -> bool:
    """An assert that was printed without its message, as pytest's summary does: all it says is where it was raised."""
    return failure.message.endswith(failure.texts.get("condition", "\0")) and " @ " in failure.message


def _is_error(failure: Failure) -> bool:
    return find_rank(failure) == "error" and failure.failure_class != "crash"


def _is_of_firmware_start(failure: Failure) -> bool:
    """True when it is printed on the way to a firmware that does not start, and explained by that failure."""
    return failure.is_warning or find_template(failure.template).family == "device-timeout"


def is_echo(failure: Failure) -> bool:
    """True when it counts only without an error: a wrapper of one, or a planner's remark on a choice it dropped."""
    return find_template(failure.template).rank in ("wrapper", "chatter")


def find_rank(failure: Failure) -> str:
    """The rank of its template; what an exception carries is an error also where the wording is a warning's."""
    rank = find_template(failure.template).rank
    return "error" if rank == "warning" and not failure.is_warning else rank


def _drop_echoes(failures: list[Failure]) -> list[Failure]:
    """Without wrappers and deaths that the other failures explain.

    ``Error code: 13`` says that something failed; an abort after an error is how an uncaught exception ends a
    process; a kill is explained by the host's own report of it; an assert without its message by one that has it.
    """
    ranks = [find_rank(failure) for failure in failures]
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
        chattered = chattered or rank == "chatter"  # an optimiser prints thousands: one is kept for all
        kept.append(failure)
    return kept


class _Family:
    """The failures of one family, with indexes to find the one that a shorter print repeats."""

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
                    self.kept[index] = (min(first, position), _merge(fuller, failure))
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
    """True when ``fuller`` reports everything that ``failure`` reports (they are of one family)."""
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


def _merge(fuller: Failure, other: Failure) -> Failure:
    lines = [line for line in (fuller.line, other.line) if line is not None]
    return replace(fuller, texts={**other.texts, **fuller.texts}, line=min(lines) if lines else None)


_FREED_INPUT, _FREED_INPUT_WIDTH = "U9", 40_000
"""The template of our recorder's sentence, and how long the exception before it may be, backtrace and all."""
_SITE_WIDTH = 600
"""Largest distance between a message and the ``TT_FATAL @ file:line`` before it."""


def find_failures(text: str, *, first_line: int = 1, include_other: bool = False) -> list[Failure]:
    """Find the distinct failures of a text, in order.

    ``text`` may be a pasted message, a log line with the lines that follow it, or a whole log; ``first_line`` is the
    number of its first line. Time is linear in the text. Class ``none`` (asserts of unknown wording, and wrappers
    such as ``Error code: 13`` when nothing else is there) is reported only on request.
    """
    return read_prints(text, first_line=first_line, include_other=include_other).failures


@dataclass(frozen=True, slots=True)
class Prints:
    """The failures of a text, each once, and what their prints leave to say."""

    failures: list[Failure]
    error_lines: list[int]
    """Lines on which an error is printed, repetitions included; warnings and wrappers are none."""
    unread_errors: int
    """Errors of unknown wording that were too many to be looked at."""


def read_prints(text: str, *, first_line: int, include_other: bool) -> Prints:
    """``find_failures`` with the lines of all prints."""
    clean = CleanText(text, first_line)
    hits = _drop_overlaps(_find_known(clean))
    if include_other:
        hits = sorted([*hits, *_find_unknown(clean, hits)], key=lambda hit: hit.start)
    else:
        hits = [hit for hit in hits if hit.failure.failure_class != "none"]
    lines = [hit.failure.line for hit in hits if hit.failure.line is not None and find_rank(hit.failure) == "error"]
    return Prints(deduplicate(_attach_sites(clean, _attach_freed_inputs(hits))), lines, clean.unread_errors)


def _find_known(clean: CleanText) -> Iterator[Hit]:
    for template in load_entries(Template):
        if find_anchor(template.text) in clean.flat:
            for match in find_matches(template.text, clean.flat):
                if _counts(clean, template, match):
                    yield Hit(match.start, match.end, _failure(clean, template, match))


def _counts(clean: CleanText, template: Template, match: Match) -> bool:
    """True for a message, not a mention: figures prove it, else its envelope or a line of its own does."""
    if template.place == "itself":
        return True
    if template.place == "line-start":
        return clean.starts_row(match.start)
    if template.place == "line":
        return _is_whole_row(clean, match)
    if template.place == "line-end":
        return _ends_row(clean, match)
    return bool(match.numbers) or is_within_error(clean, match.start) or _is_whole_row(clean, match)


def _is_whole_row(clean: CleanText, match: Match) -> bool:
    return clean.starts_row(match.start) and _ends_row(clean, match)


def _ends_row(clean: CleanText, match: Match) -> bool:
    rest = clean.rows[match.end : clean.row_end(match.end)]
    return not strip_source_suffix(rest).strip(" .!`'\"")


def _failure(clean: CleanText, template: Template, match: Match) -> Failure:
    numbers, texts = dict(match.numbers), {**template.texts, **match.texts}
    memory = texts.pop("memory", template.memory)
    failure_class = template.failure_class
    if failure_class == "oom":
        failure_class = classify_oom_figures(numbers, memory)
        if note := check_statistics(numbers):
            texts["note"] = note
    address, region_end = numbers.get("l1_buffer_address"), numbers.get("region_end")
    if address is not None and region_end is not None:
        if region_end > address:
            numbers["overlap_bytes"] = region_end - address
        else:
            del numbers["region_end"]  # no clash at all: the last figure of the sentence was cut
    if failure_class == "crash" and (signal := _find_signal(texts.pop("death", ""), numbers.get("exit_code", 0))):
        texts["signal"] = signal
        if signal == "SIGKILL" and "exit_code" in numbers:
            failure_class = "host/memory"  # what a status of 137 means nearly always; the headline says its doubt
    return Failure(
        failure_class=failure_class,
        memory=memory,
        message=strip_source_suffix(clean.flat[match.start : match.end]),
        template=template.id,
        numbers=numbers,
        texts=texts,
        line=clean.line_at(match.start),
        is_warning=template.rank == "chatter" or (template.rank == "warning" and not is_thrown(clean, match.start)),
    )


def _find_signal(word: str, exit_code: int) -> str:
    """The signal's name; shells report a death by signal n as exit code 128 + n."""
    key = word.lower() if word else str(exit_code - 128)
    return str(load_facts("patterns")["signals"].get(key, word if word.startswith("SIG") else ""))


def _drop_overlaps(hits: Iterable[Hit]) -> list[Hit]:
    """Keep the first template that matches at a place; a match inside a message is part of it."""
    kept: list[Hit] = []
    end = -1
    for hit in sorted(hits, key=lambda hit: hit.start):  # stable: equal starts stay in the order of the knowledge
        if hit.start >= end:
            kept.append(hit)
            end = hit.end
    return kept


def _find_unknown(clean: CleanText, known: list[Hit]) -> Iterator[Hit]:
    starts = iter([hit.start for hit in known if find_template(hit.failure.template).rank != "wrapper"])
    start = next(starts, None)
    for hit in sorted(find_envelopes(clean), key=lambda hit: hit.start):
        while start is not None and start < hit.start:
            start = next(starts, None)
        if start is None or start > hit.end:
            yield hit


def _attach_freed_inputs(hits: list[Hit]) -> list[Hit]:
    """Attach our recorder's sentence on a freed input to the failure that it was sent with, whatever its words."""
    kept: list[Hit] = []
    for hit in hits:
        told, before = hit.failure, kept[-1] if kept else None
        if told.template != _FREED_INPUT or before is None or hit.start - before.end > _FREED_INPUT_WIDTH:
            kept.append(hit)
            continue
        known = before.failure.failure_class
        failure_class = told.failure_class if known == "none" else known
        texts = {**told.texts, **before.failure.texts}  # of several inputs the first
        kept[-1] = Hit(before.start, hit.end, replace(before.failure, failure_class=failure_class, texts=texts))
    return kept


def _attach_sites(clean: CleanText, hits: list[Hit]) -> Iterator[Failure]:
    """The failures, each with the source file of the exception that carries it."""
    sites = iter(find_exception_sites(clean))
    upcoming = next(sites, None)
    latest: tuple[int, str] | None = None
    for hit in hits:
        while upcoming is not None and upcoming[0] <= hit.start:
            latest, upcoming = upcoming, next(sites, None)
        is_own_print = "file" in hit.failure.texts or hit.failure.failure_class == "crash"
        if latest is None or hit.start - latest[0] > _SITE_WIDTH or is_own_print:
            yield hit.failure
        else:
            yield replace(hit.failure, texts={**hit.failure.texts, "file": latest[1]})
            latest = None  # one exception carries one message
