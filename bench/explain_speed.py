# SPDX-License-Identifier: Apache-2.0
"""`ttmem explain LOG --json` against `grep` for the same templates on the same file.

grep gets the fixed text with which each template begins, as fast as grep can search them (-F). Its output is read
through a pipe: with nobody reading it would stop at the first match.

python bench/explain_speed.py            # 100 MB logs, as the target is stated
python bench/explain_speed.py --quick    # 30 MB
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measure import Measured, Row, print_table, run
from profile_speed import make_log
from ttmem.failures.knowledge.tables import Template, load_entries
from ttmem.failures.text.template import find_anchor

FAILURE = (
    "2026-05-14 01:00:31.755 | critical |          Always | TT_FATAL: Out of Memory: Not enough space to allocate "
    "3294625792 B DRAM buffer across 12 banks, where each bank needs to store 274686208 B, but bank size is 1071821792 "
    "B (allocated: 784847680 B, free: 286974112 B, largest free block: 216504544 B) (assert.hpp:104)\n"
)
FOREIGN_LINE = (
    "2026-05-14 01:00:00.014 (   0.014s) [        4F4456C0]    buffer_instance.cc:{:<4d}     1| step {} took {} us\n"
)
LIMIT = 2.0


def with_failure(log: Path) -> Path:
    """The same log with a failure at its end."""
    path = log.with_suffix(".failed.log")
    if not path.exists():
        part = path.with_suffix(".part")
        part.write_bytes(log.read_bytes() + FAILURE.encode())
        part.rename(path)
    return path


def foreign_log(folder: Path, megabytes: int) -> Path:
    """A log that no runtime printed: every line differs, none tells of a failure."""
    path = folder / f"foreign-{megabytes}.log"
    if not path.exists():
        count = (megabytes << 20) // len(FOREIGN_LINE.format(1, 10, 100))
        path.write_text("".join(FOREIGN_LINE.format(n % 1000, n, n * 7 % 1013) for n in range(count)))
    return path


def explain(log: Path, home: str) -> Measured:
    """The whole command as a user runs it, interpreter start included; compiled once, as an installed ttmem is."""
    command = [sys.executable, "-m", "ttmem", "explain", str(log), "--json", "--no-alive"]
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{home}/compiled"}
    return run(command, repeat=5, env={"TTMEM_HOME": home, **compiled})


def rows(folder: Path, *, quick: bool) -> list[Row]:
    """All figures of this benchmark."""
    megabytes = 30 if quick else 100
    wordings = folder / "templates.txt"
    wordings.write_text("\n".join(sorted({find_anchor(template.text) for template in load_entries(Template)})) + "\n")
    logs = {
        "runtime log, lines repeat": make_log(folder, "repeating", megabytes),
        "runtime log, lines never repeat": make_log(folder, "unique", megabytes),
        "runtime log, one failure": with_failure(make_log(folder, "unique", megabytes)),
        "other log": foreign_log(folder, megabytes),
    }
    found = []
    with tempfile.TemporaryDirectory() as home:
        for name, log in logs.items():
            # grep ends with status 1 when nothing matches, which is what most of these logs are made for.
            grep = run(["sh", "-c", f"grep -F -f '{wordings}' '{log}' || true"], repeat=5)
            ours = explain(log, home)
            found += [
                Row(
                    f"{name}, {megabytes} MB: grep -F, {len(load_entries(Template))} templates",
                    grep.cpu_seconds,
                    "s CPU",
                ),
                Row(f"{name}: explain (wall)", ours.wall_seconds / grep.wall_seconds, "x grep", LIMIT),
                Row(f"{name}: explain (CPU)", ours.cpu_seconds / grep.cpu_seconds, "x grep", LIMIT),
                Row(f"{name}: peak resident set", ours.rss_mib, "MiB", 100),
            ]
    return found


if __name__ == "__main__":
    raise SystemExit(print_table(rows, about=__doc__, quick_means="smaller logs"))
