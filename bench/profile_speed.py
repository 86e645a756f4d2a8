# SPDX-License-Identifier: Apache-2.0
"""`ttmem profile LOG --json` against `grep -c MemoryView` and a plain Python line loop on the same file.

python bench/profile_speed.py            # 100 MB and 1 GB logs, as the targets are stated
python bench/profile_speed.py --quick    # 30 MB and 300 MB
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measure import Measured, Row, print_table, run

LINE_LOOP = "import sys\nfor line in open(sys.argv[1], 'rb'): b'MemoryView' in line"
LOGS = {
    "repeating": ["--seed", "42", "--ansi", "--leak", "4096", "--dense-mb", "3"],
    "unique": ["--seed", "7", "--ansi", "--unique-ops", "--dense-mb", "3"],
}


def make_log(folder: Path, name: str, megabytes: int) -> Path:
    """A generated log of about this size; kept between runs."""
    path = folder / f"{name}-{megabytes}.log"
    if not path.exists():
        from loggen.__main__ import main

        part = path.with_suffix(".part")
        main([*LOGS[name], "--mb", str(megabytes), "-o", str(part)])
        part.rename(path)
    return path


def profile(log: Path, *, jobs: int, home: str, repeat: int, store: bool = False) -> Measured:
    """The whole command as a user runs it."""
    command = [sys.executable, "-m", "ttmem", "profile", str(log), "--json", "--jobs", str(jobs)]
    return run([*command, *([] if store else ["--no-store"])], repeat=repeat, env={"TTMEM_HOME": home})


def rows(folder: Path, *, quick: bool) -> list[Row]:
    """All figures of this benchmark."""
    small, large = (30, 300) if quick else (100, 1000)
    repeat = 3
    found = []
    with tempfile.TemporaryDirectory() as home:
        big = make_log(folder, "repeating", large)
        grep = run(["grep", "-c", "MemoryView", str(big)], repeat=5)
        loop = run([sys.executable, "-c", LINE_LOOP, str(big)], repeat=repeat)
        one = profile(big, jobs=1, home=home, repeat=repeat)
        two = profile(big, jobs=2, home=home, repeat=repeat)
        stored = profile(big, jobs=2, home=home, repeat=repeat, store=True)
        found += [
            Row(f"grep -c MemoryView, {large} MB", grep.wall_seconds, "s"),
            Row(f"python line loop, {large} MB", loop.wall_seconds / grep.wall_seconds, "x grep"),
            Row("profile --json, one process (wall)", one.wall_seconds / grep.wall_seconds, "x grep", 10),
            Row("profile --json, one process (CPU)", one.cpu_seconds / grep.cpu_seconds, "x grep", 10),
            Row("profile --json, one process", one.wall_seconds / loop.wall_seconds, "x loop"),
            Row("profile --json, two processes (wall)", two.wall_seconds / grep.wall_seconds, "x grep", 8),
            Row("profile --json, two processes, and stored (wall)", stored.wall_seconds / grep.wall_seconds, "x grep"),
            Row("peak resident set, one process", one.rss_mib, "MiB", 300),
            Row("peak resident set, and stored", stored.rss_mib, "MiB"),
        ]
        little = profile(make_log(folder, "repeating", small), jobs=1, home=home, repeat=repeat)
        found.append(Row(f"{small} MB -> {large} MB costs (CPU)", one.cpu_seconds / little.cpu_seconds, "x", 11))
        unique = make_log(folder, "unique", large)
        unique_grep = run(["grep", "-c", "MemoryView", str(unique)], repeat=5)
        alone = profile(unique, jobs=1, home=home, repeat=repeat)
        found += [
            Row("lines never repeat, one process (wall)", alone.wall_seconds / unique_grep.wall_seconds, "x grep", 25),
            Row("lines never repeat, one process (CPU)", alone.cpu_seconds / unique_grep.cpu_seconds, "x grep", 25),
            Row("lines never repeat, peak resident set", alone.rss_mib, "MiB", 300),
        ]
    return found


if __name__ == "__main__":
    raise SystemExit(print_table(rows, about=__doc__, quick_means="smaller logs"))
