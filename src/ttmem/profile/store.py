# SPDX-License-Identifier: Apache-2.0
"""The store of reports: one folder per name under ``$TTMEM_HOME/reports`` (``~/.ttmem/reports``).

The caller decides what a report consists of. The store finds it a name and writes it whole or not at all; two writers
need no lock: the second finds the name taken and takes the next.
"""

import contextlib
import itertools
import os
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ttmem.base.atomic_folders import remove_folder, remove_leftovers, write_folder
from ttmem.base.errors import BadInputError
from ttmem.base.home import home_folder
from ttmem.base.text_safety import encode_json, replace_half_pairs

_FACTS = (
    "stored_at", "kind", "operations_executed", "peak_dram_bytes_per_bank", "peak_dram_percent",
    "peak_l1_bytes_per_bank", "peak_l1_percent", "status", "origin",
)  # fmt: skip
_LONGEST_BYTES = 120
"""File systems end at 255 bytes; ``_inputs_registry.json`` and a number are added."""
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
"""Names that a system behind a network share may take for devices."""


@dataclass(frozen=True, slots=True)
class StoredReport:
    name: str
    folder: Path

    @property
    def profile_path(self) -> Path:
        """The whole Profile, which every verb can read again."""
        return self.folder / f"{self.name}_profile.ttmem"

    @property
    def html_path(self) -> Path:
        return self.folder / f"{self.name}_report.html"

    @property
    def about_path(self) -> Path:
        """The columns of ``ttmem reports``, so that it need not load every profile."""
        return self.folder / f"{self.name}_about.json"


def locate_folder() -> Path:
    """Return the folder of reports; ``TTMEM_HOME`` moves it."""
    return home_folder() / "reports"


def find(name: str) -> StoredReport | None:
    """Return the stored report of that name, if it can be read."""
    with contextlib.suppress(BadInputError, OSError):
        report = StoredReport(check_name(name), locate_folder() / check_name(name))
        return report if report.profile_path.is_file() else None
    return None


def list_names() -> list[str]:
    with contextlib.suppress(BadInputError, OSError):
        return sorted(entry.name for entry in locate_folder().iterdir() if find(entry.name))
    return []


def keep(
    files: Callable[[str], Iterable[tuple[str, bytes]]],
    facts: Mapping[str, object],
    *,
    origin: str,
    suggested_name: str,
    name: str | None = None,
) -> StoredReport:
    """Store a report: ``files`` gives (file name after ``<name>_``, content) for the name it is stored under.

    A ``name`` chosen by the user replaces the report that has it. A name made from the source never replaces the report
    of another source (``read_origin``): it gets a number.
    """
    root = locate_folder()
    root.mkdir(parents=True, exist_ok=True)
    remove_leftovers(root)
    usable = make_usable_name(suggested_name)
    numbered = itertools.chain([usable], (f"{usable}-{number}" for number in itertools.count(2)))
    for candidate in numbered if name is None else [check_name(name)]:
        report = StoredReport(candidate, root / candidate)
        replace = name is not None or _read_facts(report).get("origin") == origin
        if not replace and os.path.lexists(report.folder):
            continue
        try:
            write_folder(report.folder, _name_files(candidate, files, facts, origin), replace=replace)
            return report
        except FileExistsError:
            continue  # another writer was quicker
    raise AssertionError("numbers do not end, and a chosen name is replaced")


def remove(name: str) -> None:
    remove_folder(locate_folder() / check_name(name))


def read_origin(report: StoredReport) -> str:
    """Return the source of the report, so that a copy of it still counts as read from there."""
    return str(_read_facts(report).get("origin") or "")


def list_reports() -> list[dict[str, object]]:
    """Return the stored reports by name; one that is removed at the same time is left out."""
    entries = []
    for name in list_names():
        with contextlib.suppress(OSError):
            if report := find(name):
                entries.append(read_about(report))
    return entries


def read_about(report: StoredReport) -> dict[str, object]:
    """Return a report's columns in a listing: date, kind, operations, peak; figures are per bank."""
    facts = _read_facts(report)
    size_bytes = sum(entry.stat().st_size for entry in report.folder.iterdir() if entry.is_file())
    return {
        "name": report.name,
        **{fact: facts.get(fact) for fact in _FACTS},
        "bytes_on_disk": size_bytes,
        "folder": str(report.folder),
    }


def _name_files(
    name: str, files: Callable[[str], Iterable[tuple[str, bytes]]], facts: Mapping[str, object], origin: str
) -> Iterable[tuple[str, bytes]]:
    import msgspec

    yield from ((f"{name}_{suffix}", content) for suffix, content in files(name))
    known = {
        "schema": "ttmem.stored-report/1",
        "name": name,
        "origin": replace_half_pairs(origin),
        "stored_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **facts,
    }
    yield f"{name}_about.json", msgspec.json.format(encode_json(known), indent=2) + b"\n"


def _read_facts(report: StoredReport) -> dict[str, object]:
    import msgspec

    try:
        return msgspec.json.decode(report.about_path.read_bytes(), type=dict[str, object])
    except (OSError, msgspec.DecodeError):
        return {}


def check_name(name: str) -> str:
    """Return the name if it can be a folder of the store; refuse one that could leave the folder or hide in it."""
    usable = make_usable_name(name)
    if usable == unicodedata.normalize("NFC", name):
        return usable
    hint = f"letters, digits and ._+@=- are fine, for example '{usable}'"
    raise BadInputError(f"'{name.encode('unicode_escape').decode()}' cannot be the name of a report", hint=hint)


def make_usable_name(name: str) -> str:
    """Return the closest name that is safe as a folder, as an argument and in a shell; a safe one is unchanged."""
    name = unicodedata.normalize("NFC", name)
    safe = re.sub(r"[^\w.+@=-]+", "_", name)
    if safe != name or safe[:1] in (".", "-"):
        safe = safe.lstrip("._-").rstrip("_")
    if safe.split(".")[0].lower() in _DEVICES:
        safe = f"_{safe}"
    while len(safe.encode()) > _LONGEST_BYTES:
        safe = safe[:-1]
    return safe or "report"
