# SPDX-License-Identifier: Apache-2.0
"""Write the arguments of operations, as the pinned ttnn declares them, or check that the file is current.

python tools/signatures.py            # write src/ttmem/twin/operations/signatures.toml
python tools/signatures.py --check    # exit 1 when the file and the library disagree

nanobind, with which the library binds its operations, keeps the signature of every overload. Exit 3: no such ttnn.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from ttmem import TtmemError
from ttmem.engines.interpreters import PINNED_TTNN, find_interpreter
from ttmem.engines.workspace import open_workspace
from ttmem.twin.operations import RECORDS

FILE = Path(__file__).resolve().parents[1] / "src" / "ttmem" / "twin" / "operations" / "signatures.toml"

_HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# The arguments of operations with a record, by overload, in the order in which the library tries them: `?` marks what
# may be left out, behind `*` arguments have to be named. Written by `python tools/signatures.py` from ttnn {version}.
"""

_LEFT_OUT = "MayBeLeftOut"
_ASK = """
import json, sys
import ttnn
told = {}
for name in json.load(sys.stdin):
    found = ttnn
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        continue
    function = getattr(found, "function", found)
    bound = getattr(type(function).__call__, "__nb_signature__", None) or function.__nb_signature__
    told[name] = [text for text, *_ in bound]
json.dump(told, open(sys.argv[1], "w"))
"""


def ask_library(release: str = PINNED_TTNN, python: str | None = None) -> dict[str, list[str]]:
    """Return the library's own signature texts by operation; an in-place form has a name of its own."""
    interpreter = find_interpreter(python)
    if interpreter.ttnn_version != release:
        raise TtmemError(f"{interpreter.path} has ttnn {interpreter.ttnn_version}, not {release}")
    names = [name for record in RECORDS for name in (record.name, *record.aliases)]
    with open_workspace(interpreter, board="n150") as place:
        answer = place.folder / "signatures.json"
        command, environment = [interpreter.path, "-c", _ASK, str(answer)], place.build_environment(os.environ)
        subprocess.run(
            command, input=json.dumps(names), text=True, env=environment, check=True, stdout=subprocess.DEVNULL
        )
        told: dict[str, list[str]] = json.loads(answer.read_text())
    return told


def compact(signature: str) -> str:
    """``def f(self, x: a.b.Tensor, *, dim: int | None = \\0) -> ...`` as ``x: Tensor, *, dim?: int|None``."""
    # A default is a number of nanobind's own; arguments without one may come later, which Python's grammar forbids.
    (function,) = ast.parse(re.sub(r" = \\\d+", f" | {_LEFT_OUT}", signature) + ": pass").body
    assert isinstance(function, ast.FunctionDef)
    given = function.args
    words = [_word(one) for one in (given.posonlyargs + given.args)[1:]]
    words += ["*", *map(_word, given.kwonlyargs)] if given.kwonlyargs else []
    return ", ".join(words)


def _word(argument: ast.arg) -> str:
    types = dict.fromkeys(_types(argument.annotation))
    mark = "?" if types.pop(_LEFT_OUT, True) is None else ""
    return f"{argument.arg}{mark}: {'|'.join(types)}"


def _types(node: ast.expr | None) -> list[str]:
    """The last word of each: modules change between releases, and nobody asks for them."""
    if isinstance(node, ast.BinOp):
        return _types(node.left) + _types(node.right)
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Constant):
        return [str(node.value).rpartition("::")[2]]
    if isinstance(node, ast.Subscript):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return [f"[{'/'.join(dict.fromkeys(word for one in inner for word in _types(one)))}]"]
    return ["object"]


def document(told: dict[str, list[str]]) -> str:
    """Operations with the same overloads stand together."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, signatures in told.items():
        groups.setdefault(tuple(dict.fromkeys(map(compact, signatures))), []).append(name)
    parts = [_HEAD.format(version=PINNED_TTNN)]
    for overloads, names in sorted(groups.items(), key=lambda item: min(item[1])):
        parts.append("\n[[signature]]\noperations = [")
        parts += [f"    {json.dumps(name)}," for name in sorted(names)]
        parts += ["]", "overloads = [", *(f"    {json.dumps(one)}," for one in overloads), "]"]
    return "\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say whether the file is current")
    options = parser.parse_args()
    try:
        wanted = document(ask_library())
    except TtmemError as error:
        print(error.message, file=sys.stderr)
        return 3
    if not options.check:
        FILE.write_text(wanted, encoding="utf-8")
    elif not FILE.is_file() or FILE.read_text(encoding="utf-8") != wanted:
        print(f"{FILE.name} is not what ttnn {PINNED_TTNN} says; run `python tools/signatures.py`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
