# SPDX-License-Identifier: Apache-2.0
"""Write docs/operations.md from the records of operations, or check that it is current.

python tools/operations_docs.py            # write
python tools/operations_docs.py --check    # exit 1 when the file and the records disagree
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ttmem.hardware import DEFAULT_RELEASE
from ttmem.operators.catalogue_entries import catalogue
from ttmem.operators.mapping import KnownCalls, model_calls
from ttmem.twin.operations import BOUNDED, EXACT, RECORDS, OperationRecord

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "operations.md"

_HEAD = """\
<!-- Written by tools/operations_docs.py from the records of operations: `make docs` renews it, `make lint` checks. -->

# Operations that the twin knows

The twin models ttnn's memory and needs no ttnn. It has a record of each operation below (`src/ttmem/twin/operations/`):
its arguments, its effect on memory, an example. `make oracle` makes random calls on {release} and on the twin and
compares every address, message and free block.

- **exact**: a plain call as in the example is right to the byte. Some calls of an exact operation are less certain
  (uneven shards, row-major tensors, options that are not listed); each answer gives its level and the reason.
- **bounded** (estimated): the result is right, and the call needs at least the twin's figures.
- **calls of models**: the number of calls in the models of [twin.md](twin.md). All of them are exact unless a share is
  given.

Operations write into an existing tensor when they get `output_tensor=`; those with an in-place form (`add_`) are
marked. An operation that is not listed has no record: `ttmem ops map` shows it as `none`, and sweeps on the twin report
it as not judged. In the examples `t0` and `t1` are bfloat16 tiles of 1x1x64x64.
"""


def document() -> str:
    """The whole page."""
    lines = [_HEAD.format(release=DEFAULT_RELEASE)]
    counts = {level: sum(record.confidence == level for record in RECORDS) for level in (EXACT, BOUNDED)}
    lines += [f"{len(RECORDS)} operations: {counts[EXACT]} exact, {counts[BOUNDED]} bounded.", ""]
    lines += [
        "| operation | family | plain calls | calls of models | example | arguments besides tensors | aten operators |",
        "|---|---|---|--:|---|---|---|",
    ]
    users = _users()
    for record in sorted(RECORDS, key=lambda record: record.name):
        name = f"`ttnn.{record.name}`" + (f", `{record.name}_`" if record.has_in_place_form else "")
        arguments = ", ".join(f"`{argument.name}`" for argument in record.arguments) or "-"
        aten = ", ".join(f"`{one}`" for one in users.get(record.name, ())) or "-"
        used = f"{record.family} | {record.confidence} | {_used(record)}"
        lines.append(f"| {name} | {used} | {_example(record)} | {arguments} | {aten} |")
    return "\n".join(lines) + "\n"


def _users() -> dict[str, list[str]]:
    """Operators of the catalogue by the operation that they call."""
    found: dict[str, list[str]] = {}
    for operator in catalogue().operators.values():
        for name in operator.called:
            record = RECORDS.get(name)
            if record and operator.aten not in found.setdefault(record.name, []):
                found[record.name].append(operator.aten)
    return found


def _used(record: OperationRecord) -> str:
    """How often models call it, and how many of these calls are exact where not all are."""
    known = [model_calls().find_operation(name) for name in (record.name, *record.aliases)]
    calls = [one for one in known if one is not None]
    if not calls:
        return "-"
    total = KnownCalls(*map(sum, zip(*calls, strict=True)))
    share = "" if total.exact == total.total else f", {total.exact_percent:g} % exact"
    return f"{model_calls().once(total):,}{share}"


def _example(record: OperationRecord) -> str:
    call = record.example[-1]
    words = [_word(value) for value in call["args"]]
    words += [f"{name}={_word(value)}" for name, value in call["kwargs"].items()]
    return f"`{record.name}({', '.join(words)})`"


def _word(value: Any) -> str:
    """A value of a step as Python would write it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_word, value))}]"
    if not isinstance(value, dict):
        return repr(value)
    if "new" in value:
        options = ", ".join(f"{name}={_word(item)}" for name, item in value.get("kwargs", {}).items())
        return f"{value['new']}({options})"
    if len(value) > 1:
        return f"{value['memory']} in shards" if "memory" in value else str(value)
    ((kind, item),) = value.items()
    if kind == "device":
        return kind
    return f"({', '.join(map(repr, item))})" if kind == "tuple" else str(item)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write docs/operations.md from the records of operations.")
    parser.add_argument("--check", action="store_true", help="only say whether the file is current")
    wanted = document()
    if parser.parse_args().check:
        if DOCUMENT.is_file() and DOCUMENT.read_text(encoding="utf-8") == wanted:
            return 0
        print("docs/operations.md is not what the records say; run `make docs`", file=sys.stderr)
        return 1
    DOCUMENT.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
