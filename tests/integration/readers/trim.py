# SPDX-License-Identifier: Apache-2.0
"""Makes fixtures of what the recorder wrote: small, and without paths or sources of the machine it ran on.

python trim.py RECORDED_FOLDER... -o tests/data
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

_PATH = re.compile(r"/[\w./+-]*/(?=[\w.+-]+\.(?:py|so|cpp|hpp)\b)")
_SAMPLE_ROWS = 4
"""Of tables and lists that ttmem does not read: enough to show what they look like."""


def clean(text: str) -> str:
    """Without backtraces and folders."""
    return _PATH.sub("", re.sub(r"\nbacktrace:\n(?: ---.*\n?)*", "", text))


def cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {key: cleaned(item) for key, item in value.items()}
    return value


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def trim_report(report: dict[str, Any]) -> dict[str, Any]:
    report["buffer_pages"] = report.get("buffer_pages", [])[:_SAMPLE_ROWS]
    report["buffer_pages_by_address"] = {}
    return report


def dump_database(path: Path) -> str:
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM buffer_chunks WHERE rowid > ?", (_SAMPLE_ROWS,))
        database.execute("UPDATE source_files SET path = 'model.py', contents = 'secret = 1'")
        for table, column in (("stack_traces", "stack_trace"), ("errors", "error_message"), ("errors", "stack_trace")):
            for row, text in database.execute(f"SELECT rowid, {column} FROM {table}").fetchall():
                database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (clean(text), row))
        for column in ("producer_source_file", "last_use_source_file"):
            database.execute(f"UPDATE tensor_lifetime SET {column} = 'model.py' WHERE {column} IS NOT NULL")
        return "\n".join(database.iterdump())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("-o", dest="data", type=Path, required=True)
    options = parser.parse_args()
    for folder in options.folders:
        captures = options.data / "captures"
        write(captures / f"{folder.name}.truth.json.gz", (folder / "truth.json").read_text())
        if (folder / "capture.json").exists():
            nodes = json.loads((folder / "capture.json").read_text())
            write(captures / f"{folder.name}.json.gz", json.dumps(cleaned(nodes)))
            continue
        report = trim_report(json.loads((folder / "report.json").read_text()))
        write(captures / f"{folder.name}.json.gz", json.dumps(cleaned(report)))
        calls = json.loads((folder / "report.python_io.json").read_text())
        write(captures / f"{folder.name}.python_io.json.gz", json.dumps(cleaned(calls)))
        write(options.data / "visualizer" / f"{folder.name}.sql.gz", dump_database(folder / "db.sqlite"))
        write(
            options.data / "visualizer" / f"{folder.name}.cluster.yaml.gz",
            (folder / "cluster_descriptor.yaml").read_text(),
        )


if __name__ == "__main__":
    main()
