# SPDX-License-Identifier: Apache-2.0
"""``ttmem.explain``: every failure in a text or a source of any kind, explained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttmem.base.errors import BadInputError, TtmemError
from ttmem.base.limits import FAILURES_EXPLAINED, FAILURES_WITH_ALIVE, keep_first_and_last
from ttmem.readers import sources as _sources
from ttmem.readers.sources import STDIN, Located

if TYPE_CHECKING:
    from ttmem.failures import Diagnosis, Failure, Found
    from ttmem.profile.model import Profile
    from ttmem.readers.byte_source import Progress

SMALL_LOG_BYTES = 32 << 20
"""Up to this a log is read as a profile too, to list what was alive: it takes a second or so."""


@dataclass(frozen=True, slots=True)
class Explained:
    """The diagnoses, and what a person should know about how they came about."""

    diagnoses: list[Diagnosis]
    notes: tuple[str, ...] = ()

    def to_json(self) -> list[dict[str, Any]]:
        """The document of ``ttmem explain --json``: one entry per failure."""
        from ttmem.reports.explain.document import document

        return [entry.to_json() for entry in document(self.diagnoses)]


def explain(
    source: str | Path, *, board: str | None = None, alive: bool | None = None, progress: Progress | None = None
) -> Explained:
    """What happened in memory, in numbers, and what to change.

    ``source`` is a failure message, a file, ``-`` for standard input or the name of a stored report; ``board`` says
    where it happened. ``alive``: also read a log as a profile, so that the diagnosis can name the live tensors
    (None: where that is quick). Text without a failure is an answer: one diagnosis of class ``none``.
    """
    from ttmem.failures import diagnoses
    from ttmem.failures import explain as explain_text

    if board is not None:
        from ttmem.hardware import BOARDS

        board = BOARDS.find(board).name
    located = find_source(str(source))
    if located is None:
        return Explained(explain_text(str(source), board=board))
    if (profile := _profile_in(located)) is not None:
        return _of_profile(profile, board=board)
    notes: list[str] = []
    found = _scanned(located.path, progress, notes)
    notes += found.left_out
    if found.others:
        notes.append(f"{found.others} unrelated error{'' if found.others == 1 else 's'} omitted")
    if found.failures and found.is_runtime_log and not _can_be_read_again(located):
        if alive:
            notes.append(
                "the tensors that were alive are not listed: that takes a second look, and a pipe has only one"
            )
    elif found.failures and found.is_runtime_log:
        size = Path(located.path).stat().st_size
        if size <= SMALL_LOG_BYTES if alive is None else alive:
            return _with_profile(found, located, notes, board=board, progress=progress)
        if alive is None:
            notes.append(f"next: ttmem explain {located.path} --alive  (also lists the tensors that were alive)")
    return Explained(diagnoses(found, board=board), tuple(notes))


def find_source(source: str) -> Located | None:
    """The file or stored report of that name, ``-``, or None when the argument is the text itself."""
    try:
        return _sources.locate(source)
    except BadInputError:
        if " " in source.strip() or "\n" in source:
            return None  # a message has blanks; a single word that is no file is a mistyped name
        raise


def _profile_in(located: Located) -> Profile | None:
    """The profile in a source that is no text: a stored or saved one, a folder, a capture, a database."""
    from ttmem import readers
    from ttmem.readers import registry
    from ttmem.readers.byte_source import Head

    if located.path == STDIN:
        return None
    head = Head.of(located.path)
    if head.is_text:
        return None  # most sources are: nothing that reads profiles is loaded for them
    if not head.is_folder and registry.detect(head, registry.PROFILE) in (None, registry.FALLBACK):
        return None  # JSON of another kind, such as the results of a sweep: its texts are explained
    return readers.read(located.path)


def _can_be_read_again(located: Located) -> bool:
    """Whether it is a file: a named pipe that was read has nothing left, and to open it again waits for a writer."""
    return located.path != STDIN and Path(located.path).is_file()


def _scanned(path: str | Path, progress: Progress | None, notes: list[str]) -> Found:
    from ttmem.failures import find_in_chunks
    from ttmem.readers.byte_source import OpenedSource, TruncatedSourceError

    def chunks() -> Iterator[bytes]:
        try:
            yield from opened.chunks(progress)
        except TruncatedSourceError as error:
            notes.append(f"{error}; what was unpacked before is explained")

    with OpenedSource(path) as opened:
        found = find_in_chunks(chunks())
        notes += opened.remarks
        return found


def _of_profile(profile: Profile, *, board: str | None) -> Explained:
    from ttmem.analysis.failure import failures
    from ttmem.analysis.failure_diagnosis import diagnose_failure
    from ttmem.failures import Failure, diagnose

    found = failures(profile)
    concerning = [failure for failure in found if failure.failure_class != "none"] or found
    if not concerning:
        nothing = Failure("none", None, f"the profile '{profile.name}' holds no failure", "")
        return Explained([diagnose(nothing, board=board)])
    shown = keep_first_and_last(concerning, FAILURES_EXPLAINED)
    with_alive = set(map(id, keep_first_and_last(shown, FAILURES_WITH_ALIVE)))
    diagnoses = [
        diagnose_failure(profile, failure, board=board) if id(failure) in with_alive else diagnose(failure, board=board)
        for failure in shown
    ]
    notes = [f"{len(concerning) - len(shown):,} more failures were omitted"] if len(shown) < len(concerning) else []
    return Explained(diagnoses, tuple(notes + _without_alive(shown)))


def _without_alive(failures: Sequence[Failure]) -> list[str]:
    """A remark on the failures whose live tensors were not collected."""
    if len(failures) <= FAILURES_WITH_ALIVE:
        return []
    looked = f"the first {FAILURES_WITH_ALIVE - FAILURES_WITH_ALIVE // 4} and the last {FAILURES_WITH_ALIVE // 4}"
    return [f"live tensors are listed for {looked} of {len(failures):,} failures"]


def _with_profile(
    found: Found, located: Located, notes: list[str], *, board: str | None, progress: Progress | None
) -> Explained:
    """The failures of the text, with what the profile of the same log knows about those that it shares."""
    from ttmem import readers
    from ttmem.analysis.failure import failures
    from ttmem.analysis.failure_diagnosis import diagnose_failure
    from ttmem.failures import diagnose

    try:
        profile = readers.read(located.path, progress=progress)
        keys = {failure.key for failure in found.failures}
        shared = [failure for failure in failures(profile) if failure.key in keys]
        known = {failure.key: failure for failure in keep_first_and_last(shared, FAILURES_WITH_ALIVE)}
        notes += _without_alive(shared)
    except TtmemError:
        known = {}  # a damaged log: its failures are explained all the same
    diagnoses = [
        diagnose_failure(profile, known[failure.key], board=board, context=context)
        if failure.key in known
        else diagnose(failure, board=board, context=context)
        for failure, context in zip(found.failures, found.contexts, strict=True)
    ]
    return Explained(diagnoses, tuple(notes))
