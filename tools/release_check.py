# SPDX-License-Identifier: Apache-2.0
"""Check ttmem against another ttnn release: print what changed and which record to edit.

make release-check TTNN=0.82.0                          # the same as: python tools/release_check.py 0.82.0
python tools/release_check.py 0.80.0 --only sizes,texts  # some parts; --calls 20 for fewer random calls

The release is installed next to the others (``ttmem device install --ttnn``) and asked on mock boards. Exit 1 when
something differs from what ttmem has recorded for this release. docs/new-release.md is the procedure.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

import signatures  # noqa: E402
from ttmem import TtmemError  # noqa: E402
from ttmem.engines.install import install  # noqa: E402
from ttmem.engines.interpreters import PINNED_TTNN  # noqa: E402
from ttmem.hardware import RELEASES  # noqa: E402

BOARDS = ("n150", "p150")
_TTMEM = [sys.executable, "-c", "from ttmem.commands.program import main; raise SystemExit(main())"]
_OPEN = """\
import ttnn

device = ttnn.open_device(device_id=0)
tensor = ttnn.zeros([32, 32], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
print("DRAM address", tensor.buffer_address())
ttnn.close_device(device)
"""
_FAILURES = {
    "oom": "ttnn.empty([1, 64, 32768, 32768], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)",
    "oom/L1": "ttnn.empty([1, 1, 16384, 16384], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, "
    "memory_config=ttnn.L1_MEMORY_CONFIG)",
    "buffers/clash": "keep = ttnn.zeros([1, 1, 1024, 40960], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, "
    "device=device, memory_config=ttnn.L1_MEMORY_CONFIG); ttnn.softmax(ttnn.zeros([1, 1, 32, 8192], "
    "dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device), dim=-1)",
}
"""Statements that must fail for memory, by the beginning of the status that ``ttmem explain`` has to find."""
_EXAMPLES = ("transformer_block.py", "out_of_memory.py")


@dataclass(frozen=True, slots=True)
class Change:
    """A difference from what is recorded, and the record to edit."""

    text: str
    record: str


def check_sizes(release: str, python: str) -> Iterator[Change]:
    """Compare the bank sizes of an open device with the release's table."""
    known = release in [one.name for one in RELEASES]
    for board in BOARDS:
        profile, printed = _run(python, board, _OPEN)
        match = re.search(r"DRAM address (\d+)", printed)
        measured = {name: memory["bytes_per_bank"] for name, memory in profile["memories"].items()}
        table = _ttmem("boards", board, "--json", "--release", release if known else PINNED_TTNN)
        expected = table["boards"][0]["memories"]
        base = f", first DRAM address {match[1]}" if match else ""
        for memory in ("DRAM", "L1"):
            if measured[memory] != expected[memory]["bytes_per_bank"]:
                yield Change(
                    f"{board}: a bank of {memory} has {measured[memory]:,} B, the table of "
                    f"{table['release']} gives {expected[memory]['bytes_per_bank']:,} B{base}",
                    "src/ttmem/hardware/releases.toml, [release.reserved]",
                )
    if not known:
        yield Change(f"ttnn {release} has no table yet", "src/ttmem/hardware/releases.toml: a [[release]] on top")


def check_signatures(release: str, python: str) -> Iterator[Change]:
    """Compare the arguments of every recorded operation with those of the pinned release."""
    before, after = signatures.ask_library(), signatures.ask_library(release, python)
    for name, overloads in before.items():
        now = list(dict.fromkeys(map(signatures.compact, after.get(name, []))))
        if not now:
            yield Change(f"ttnn.{name} does not exist", "its record in src/ttmem/twin/operations")
        elif now != list(dict.fromkeys(map(signatures.compact, overloads))):
            yield Change(f"ttnn.{name} takes other arguments: {' / '.join(now)}", "python tools/signatures.py")


def check_texts(release: str, python: str) -> Iterator[Change]:
    """Let calls fail for memory and look at what ``explain`` finds in the messages."""
    for wanted, statement in _FAILURES.items():
        for board in BOARDS:
            source = f"import ttnn\ndevice = ttnn.open_device(device_id=0)\n{statement}\n"
            failure = _run(python, board, source)[0]["failure"]
            found = failure["class"] if failure else "no failure"
            if not found.startswith(wanted.partition("/")[0]):
                message = (failure or {}).get("message", "")
                yield Change(
                    f"{board}: '{statement[:60]}...' is '{found}', not '{wanted}': {message[:200]}",
                    "a [[template]] in src/ttmem/failures/knowledge",
                )


def check_captures(release: str, python: str) -> Iterator[Change]:
    """Run the examples with both releases and compare what was recorded."""
    for name in _EXAMPLES:
        source = (ROOT / "examples" / name).read_text()
        for board in BOARDS:
            before, after = _run(None, board, source)[0], _run(python, board, source)[0]
            for path, first, second in (
                ("operations", before["operations"]["by_name"], after["operations"]["by_name"]),
                ("unrecognised lines", 0, after["source"]["unrecognised_lines"]),
                ("warnings", before["source"]["warnings"], after["source"]["warnings"]),
                *(
                    (f"peak of {memory}", figures["peak_bytes_per_bank"], _peak(after, memory))
                    for memory, figures in before["memories"].items()
                ),
            ):
                if first != second:
                    yield Change(f"{name} on {board}: {path}: {first} -> {second}", "src/ttmem/engines/worker")


def check_rules(release: str, python: str, calls: int) -> Iterator[Change]:
    """Compare random calls of every operation on the twin with the release's mock."""
    if release not in [one.name for one in RELEASES]:
        yield Change("rules were not compared", "add the release's table first, then run this again")
        return
    command = [sys.executable, str(ROOT / "bench" / "rules_of_release.py"), "--python", python, "--calls", str(calls)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise TtmemError(f"bench/rules_of_release.py ended with {done.returncode}: {done.stderr[-500:]}")
    for line in done.stdout.splitlines():
        if " differ" in line and " 0 differ" not in line:
            name = line.split()[0]
            yield Change(f"ttnn.{line}", f"the rule of {name} in src/ttmem/twin/operations")
    print(f"  {done.stdout.splitlines()[-1]}")


def _peak(document: dict[str, Any], memory: str) -> int | None:
    figures = document["memories"].get(memory)
    return figures["peak_bytes_per_bank"] if figures else None


def _run(python: str | None, board: str, source: str) -> tuple[dict[str, Any], str]:
    """Run a script on a mock board; return the profile's document and what the script printed."""
    with tempfile.TemporaryDirectory(prefix="ttmem-release-") as folder:
        script = Path(folder) / "script.py"
        script.write_text(source)
        words = ["run", str(script), "--board", board, "--json", "--no-store"]
        done = _call(*words, *(["--python", python] if python else []))
        try:
            return json.loads(done.stdout), done.stderr
        except ValueError:
            raise TtmemError(f"'ttmem run' on {board} gave no document: {done.stderr[-500:]}") from None


def _ttmem(*words: str) -> dict[str, Any]:
    done = _call(*words)
    if done.returncode:
        raise TtmemError(f"'ttmem {' '.join(words)}' ended with {done.returncode}: {done.stderr[-500:]}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _call(*words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([*_TTMEM, *words], capture_output=True, text=True, check=False, env=environment)


def main() -> int:
    """Install the release, check each part, print the changes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", help="a published ttnn release, such as 0.82.0")
    parser.add_argument("--only", default="", help="parts, separated by commas: sizes,signatures,texts,captures,rules")
    parser.add_argument("--calls", type=int, default=60, help="random calls of each operation on each board")
    options = parser.parse_args()
    parts: dict[str, Callable[[str, str], Iterator[Change]]] = {
        "sizes": check_sizes,
        "signatures": check_signatures,
        "texts": check_texts,
        "captures": check_captures,
        "rules": lambda release, python: check_rules(release, python, options.calls),
    }
    wanted = options.only.split(",") if options.only else list(parts)
    if unknown := [part for part in wanted if part not in parts]:
        parser.error(f"no part '{unknown[0]}'; known: {', '.join(parts)}")
    changed = 0
    try:
        python = install(release=options.release, say=lambda line: print(line, file=sys.stderr)).interpreter.path
        for part in wanted:
            print(f"== {part}", flush=True)
            count = 0
            for change in parts[part](options.release, python):
                count += 1
                print(f"  {change.text}\n    -> {change.record}", flush=True)
            print("  nothing changed" if not count else f"  {count} changes", flush=True)
            changed += count
    except TtmemError as error:
        print(f"release-check: {error}" + (f"\n  hint: {error.hint}" if error.hint else ""), file=sys.stderr)
        return error.exit_code
    return 1 if changed else 0


if __name__ == "__main__":
    raise SystemExit(main())
