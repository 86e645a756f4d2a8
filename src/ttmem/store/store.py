# SPDX-License-Identifier: Apache-2.0
"""The store of reports: one folder per name under ``$TTMEM_HOME/reports`` (``~/.ttmem/reports``).

A report is written into a hidden folder of its own and then renamed, so it is there whole or not at all, and two
writers need no lock: the one that comes second sees that the name is taken and takes the next.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import itertools
import os
import re
import shutil
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ttmem._errors import BadInputError
from ttmem._home import home_folder

if TYPE_CHECKING:
    from ttmem.profile import Profile

_UNFINISHED = ".unfinished-"
_UNFINISHED_LIFE_SECONDS = 24 * 3600
_LONGEST_NAME_BYTES = 120
"""File systems end at 255 bytes; ``_inputs_registry.json`` and a number come on top."""
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
"""Home folders on network shares may be served by a system that takes these for devices."""


@dataclass(frozen=True, slots=True)
class StoredReport:
    """One report of the store."""

    name: str
    folder: Path

    @property
    def profile_path(self) -> Path:
        """The whole Profile, which every verb can read again."""
        return self.folder / f"{self.name}_profile.ttmem"

    @property
    def html_path(self) -> Path:
        """The page to open in a browser."""
        return self.folder / f"{self.name}_report.html"

    @property
    def about_path(self) -> Path:
        """What ``ttmem reports`` lists, so that it need not load every profile."""
        return self.folder / f"{self.name}_about.json"


def folder() -> Path:
    """Where reports are kept; ``TTMEM_HOME`` moves it."""
    return home_folder() / "reports"


def check_name(name: str) -> str:
    """The name, if it can be a folder of the store; what could leave the folder or hide in it is refused."""
    usable = usable_name(name)
    if usable == unicodedata.normalize("NFC", name):
        return usable
    hint = f"letters, digits and ._+@=- are fine, for example '{usable}'"
    raise BadInputError(f"'{name.encode('unicode_escape').decode()}' cannot be the name of a report", hint=hint)


def find(name: str) -> StoredReport | None:
    """The stored report of that name, if there is one that can be read."""
    with contextlib.suppress(BadInputError, OSError):
        report = StoredReport(check_name(name), folder() / check_name(name))
        return report if report.profile_path.is_file() else None
    return None


def names() -> list[str]:
    """All stored reports, by name."""
    with contextlib.suppress(BadInputError, OSError):
        return sorted(entry.name for entry in folder().iterdir() if find(entry.name))
    return []


def keep(profile: Profile, *, origin: str, name: str | None = None) -> StoredReport:
    """Store a profile with its reports.

    A ``name`` that the user chose replaces what has it. A name made from the source never replaces the report of
    another source: it gets a number. ``origin`` says what was read (a resolved path); empty, as for standard input,
    means that only equal content counts as the same source.
    """
    root = folder()
    root.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(root)
    origin = origin or f"content:{_digest(profile)}"
    if name is not None:
        return _write(profile, StoredReport(check_name(name), root / check_name(name)), origin, replace=True)
    for candidate in _numbered(usable_name(profile.name)):
        report = StoredReport(candidate, root / candidate)
        same_source = _about(report).get("origin") == origin
        if not same_source and os.path.lexists(report.folder):
            continue
        try:
            return _write(profile, report, origin, replace=same_source)
        except FileExistsError:
            continue  # another writer was quicker
    raise AssertionError("numbers do not end")


def remove(name: str) -> None:
    """Take a report out of the store."""
    path = folder() / check_name(name)
    hidden = _hidden_folder(path.parent)
    path.rename(hidden)  # first out of sight at once, then deleted at leisure
    _discard(hidden)


def origin(report: StoredReport) -> str:
    """What the report was made from, so that a copy of it still counts as read from there."""
    return str(_about(report).get("origin") or "")


def listing() -> list[dict[str, object]]:
    """What is stored, by name; a report that is removed meanwhile is left out."""
    entries = []
    for name in names():
        with contextlib.suppress(OSError):
            if report := find(name):
                entries.append(about(report))
    return entries


def about(report: StoredReport) -> dict[str, object]:
    """What a listing shows of a report: when, kind, operations, peak; figures are per bank."""
    facts = _about(report)
    size_bytes = sum(entry.stat().st_size for entry in report.folder.iterdir() if entry.is_file())
    return {
        "name": report.name,
        "stored_at": facts.get("stored_at"),
        "kind": facts.get("kind"),
        "operations_executed": facts.get("operations_executed"),
        "peak_dram_bytes_per_bank": facts.get("peak_dram_bytes_per_bank"),
        "peak_dram_percent": facts.get("peak_dram_percent"),
        "origin": facts.get("origin"),
        "bytes_on_disk": size_bytes,
        "folder": str(report.folder),
    }


def usable_name(name: str) -> str:
    """The closest name that is safe as a folder, as an argument and in a shell; a safe one stays as it is."""
    name = unicodedata.normalize("NFC", name)
    safe = re.sub(r"[^\w.+@=-]+", "_", name)
    if safe != name or safe[:1] in (".", "-"):
        safe = safe.lstrip("._-").rstrip("_")
    if safe.split(".")[0].lower() in _RESERVED:
        safe = f"_{safe}"
    while len(safe.encode()) > _LONGEST_NAME_BYTES:
        safe = safe[:-1]
    return safe or "report"


def _numbered(name: str) -> Iterator[str]:
    yield name
    for number in itertools.count(2):
        yield f"{name}-{number}"


def _write(profile: Profile, report: StoredReport, origin: str, *, replace: bool) -> StoredReport:
    hidden = _hidden_folder(report.folder.parent)
    hidden.mkdir()
    try:
        for suffix, content in _files(profile.renamed(report.name), origin):
            (hidden / f"{report.name}_{suffix}").write_bytes(content)
        _place(hidden, report.folder, replace=replace)
    finally:
        _discard(hidden)
    return report


def _files(profile: Profile, origin: str) -> Iterator[tuple[str, bytes]]:
    """Every file of a report, as (suffix, content)."""
    import msgspec

    from ttmem.analysis.peaks import peaks
    from ttmem.profile import storage
    from ttmem.reports.profile import html, seed_files

    yield from seed_files.files(profile)
    yield "report.html", html.render(profile).encode("utf-8", "replace")
    yield "profile.ttmem", storage.to_bytes(profile)
    dram = peaks(profile).get("DRAM")
    facts = {
        "schema": "ttmem.stored-report/1",
        "name": profile.name,
        "origin": _printable(origin),
        "stored_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "kind": profile.source.kind,
        "operations_executed": sum(len(timeline) for timeline in profile.timelines),
        "peak_dram_bytes_per_bank": dram.peak_bytes_per_bank if dram else None,
        "peak_dram_percent": dram.peak_percent if dram else None,
    }
    yield "about.json", msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n"


def _about(report: StoredReport) -> dict[str, object]:
    import msgspec

    try:
        return msgspec.json.decode(report.about_path.read_bytes(), type=dict[str, object])
    except (OSError, msgspec.DecodeError):
        return {}


def _printable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _digest(profile: Profile) -> str:
    from ttmem.profile import storage

    return hashlib.blake2b(storage.to_bytes(profile.renamed("")), digest_size=16).hexdigest()


def _hidden_folder(root: Path) -> Path:
    return root / f"{_UNFINISHED}{os.getpid()}-{os.urandom(6).hex()}"


def _remove_leftovers(root: Path) -> None:
    """What a killed writer left behind; a day is longer than any write takes."""
    for entry in root.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if time.time() - entry.stat().st_mtime > _UNFINISHED_LIFE_SECONDS:
                _discard(entry)


def _discard(path: Path) -> None:
    """Delete a folder of ours; where somebody put a link, only the link."""
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _place(new: Path, target: Path, *, replace: bool) -> None:
    """Give the finished folder its name. Afterwards ``new`` is gone or holds what was replaced.

    The kernel refuses to rename a folder onto one that holds files, which is what makes the name a lock.
    """
    while True:
        try:
            new.rename(target)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            if not replace:
                raise FileExistsError(error.errno, error.strerror, str(target)) from None
        if _exchange(new, target):
            return
        # Without an atomic exchange the name is missing for an instant; another writer may use it, so try again.
        aside = _hidden_folder(target.parent)
        with contextlib.suppress(FileNotFoundError):
            target.rename(aside)
        _discard(aside)


def _exchange(new: Path, target: Path) -> bool:
    """Swap two names in one step, so that a reader finds the old report or the new one; False where it cannot be."""
    at_working_folder, exchange = -100, 2
    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    return bool(swap(at_working_folder, os.fsencode(new), at_working_folder, os.fsencode(target), exchange) == 0)
