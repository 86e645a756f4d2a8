# SPDX-License-Identifier: Apache-2.0
"""The failures in a source of any kind, diagnosed: a text, a log that is also read as a profile, or a saved profile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ttmem.base.errors import TtmemError
from ttmem.base.limits import FAILURES_EXPLAINED, FAILURES_WITH_ALIVE, keep_first_and_last
from ttmem.readers.sources import STDIN, Located

if TYPE_CHECKING:
    from ttmem.failures.diagnosis.diagnose import Diagnosis
    from ttmem.failures.failure import Failure
    from ttmem.failures.text.find_in_stream import FailureSearch
    from ttmem.profile.model import Profile
    from ttmem.readers.byte_source import Progress

SMALL_LOG_BYTES = 32 << 20
"""Up to this size a log is read as a profile too, to list what was alive: it takes a second or so."""


@dataclass(frozen=True, slots=True)
class SourceDiagnosis:
    """The diagnoses of a source, and remarks for the user."""

    diagnoses: list[Diagnosis]
    notes: tuple[str, ...] = ()


def diagnose_source(
    located: Located, *, board: str | None, alive: bool | None, progress: Progress | None
) -> SourceDiagnosis:
    """Diagnose every failure; ``alive``: also read a log as a profile (None: where that is quick)."""
    from ttmem.failures.diagnosis.diagnose import diagnose_all

    if (profile := _read_profile(located)) is not None:
        return _diagnose_profile(profile, board=board)
    notes: list[str] = []
    found = _scan_text(located.path, progress, notes)
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
            return _diagnose_with_profile(found, located, notes, board=board, progress=progress)
        if alive is None:
            notes.append(f"next: ttmem explain {located.path} --alive  (also lists the tensors that were alive)")
    return SourceDiagnosis(diagnose_all(found, board=board), tuple(notes))


def _read_profile(located: Located) -> Profile | None:
    """Read the profile in a source that is no text: a stored or saved one, a folder, a capture, a database."""
    from ttmem import readers
    from ttmem.readers import registry
    from ttmem.readers.byte_source import Head

    if located.path == STDIN:
        return None
    head = Head.read(located.path)
    if head.is_text:
        return None  # most sources are: nothing that reads profiles is loaded for them
    if not head.is_folder and registry.detect(head, registry.PROFILE) in (None, registry.FALLBACK):
        return None  # JSON of another kind, such as the results of a sweep: its texts are explained
    return readers.read(located.path)


def _can_be_read_again(located: Located) -> bool:
    """Return whether it is a file: a named pipe has nothing left, and opening it again waits for a writer."""
    return located.path != STDIN and Path(located.path).is_file()


def _scan_text(path: str | Path, progress: Progress | None, notes: list[str]) -> FailureSearch:
    from ttmem.failures.text.find_in_stream import find_in_chunks
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


def _diagnose_profile(profile: Profile, *, board: str | None) -> SourceDiagnosis:
    from ttmem.analysis.failure import diagnose_failure, failures
    from ttmem.failures.diagnosis.diagnose import diagnose
    from ttmem.failures.failure import Failure

    found = failures(profile)
    concerning = [failure for failure in found if failure.failure_class != "none"] or found
    if not concerning:
        nothing = Failure("none", None, f"the profile '{profile.name}' holds no failure", "")
        return SourceDiagnosis([diagnose(nothing, board=board)])
    shown = keep_first_and_last(concerning, FAILURES_EXPLAINED)
    with_alive = set(map(id, keep_first_and_last(shown, FAILURES_WITH_ALIVE)))
    diagnoses = [
        diagnose_failure(profile, failure, board=board) if id(failure) in with_alive else diagnose(failure, board=board)
        for failure in shown
    ]
    notes = [f"{len(concerning) - len(shown):,} more failures were omitted"] if len(shown) < len(concerning) else []
    return SourceDiagnosis(diagnoses, tuple(notes + _describe_omitted(shown)))


def _describe_omitted(failures: Sequence[Failure]) -> list[str]:
    """Return a remark on the failures whose live tensors were not collected."""
    if len(failures) <= FAILURES_WITH_ALIVE:
        return []
    looked = f"the first {FAILURES_WITH_ALIVE - FAILURES_WITH_ALIVE // 4} and the last {FAILURES_WITH_ALIVE // 4}"
    return [f"live tensors are listed for {looked} of {len(failures):,} failures"]


def _diagnose_with_profile(
    found: FailureSearch, located: Located, notes: list[str], *, board: str | None, progress: Progress | None
) -> SourceDiagnosis:
    """Diagnose the failures of the text, with the facts of the log's profile for those in both."""
    from ttmem import readers
    from ttmem.analysis.failure import diagnose_failure, failures
    from ttmem.failures.diagnosis.diagnose import diagnose

    try:
        profile = readers.read(located.path, progress=progress)
        keys = {failure.key for failure in found.failures}
        shared = [failure for failure in failures(profile) if failure.key in keys]
        known = {failure.key: failure for failure in keep_first_and_last(shared, FAILURES_WITH_ALIVE)}
        notes += _describe_omitted(shared)
    except TtmemError:
        known = {}  # a damaged log: its failures are explained all the same
    diagnoses = [
        diagnose_failure(profile, known[failure.key], board=board, context=context)
        if failure.key in known
        else diagnose(failure, board=board, context=context)
        for failure, context in zip(found.failures, found.contexts, strict=True)
    ]
    return SourceDiagnosis(diagnoses, tuple(notes))
