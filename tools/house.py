# SPDX-License-Identifier: Apache-2.0
"""The ratchet: compare the size and the names of each room with ``tools/house.toml``, so that growth is a decision.

python tools/house.py            # print what is measured
python tools/house.py --check    # exit 1 where a number is larger than in tools/house.toml
python tools/house.py --write    # record today's numbers; commit the file with the change that needs it
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "ttmem"
TABLE = ROOT / "tools" / "house.toml"

PREPOSITIONS = {"of", "in", "by", "on", "at", "from", "with", "without", "among", "along", "across", "behind", "beside"}
PREPOSITIONS |= {"between", "under", "over", "out", "off", "within"}
DOCSTRING_STARTS = re.compile(r"(What|Of|How|Where|Whose|Which|Who|Why|As|Whether|Those|By|Nobody|Neither|Every)\b")


def measure() -> dict[str, dict[str, int]]:
    """Return the numbers of each room and, under ``house``, those of the whole tree."""
    rooms = {folder.name: _measure_room(folder) for folder in sorted(SRC.iterdir()) if any(folder.glob("**/*.py"))}
    type_names = Counter(name for path in SRC.rglob("*.py") for name in set(_type_names(ast.parse(path.read_text()))))
    shared = sum(count > 1 for count in type_names.values())
    at_the_root = [path for path in SRC.glob("*.py") if path.name not in ("__init__.py", "__main__.py")]
    house = {"rooms": len(rooms), "modules_at_the_root": len(at_the_root), "shared_type_names": shared}
    return {"house": house} | rooms


def _measure_room(folder: Path) -> dict[str, int]:
    counts = Counter({"files": 0, "lines": 0, "names_with_a_preposition": 0, "docstrings_with_a_question_word": 0})
    for path in folder.rglob("*.py"):
        text = path.read_text()
        counts["files"] += 1
        counts["lines"] += text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                counts["names_with_a_preposition"] += node.name.strip("_").split("_")[0] in PREPOSITIONS
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                docstring = ast.get_docstring(node) or ""
                counts["docstrings_with_a_question_word"] += bool(DOCSTRING_STARTS.match(docstring))
    return dict(counts)


def _type_names(tree: ast.Module) -> Iterator[str]:
    return (node.name.lstrip("_") for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def format_table(numbers: dict[str, dict[str, int]]) -> str:
    """Return the numbers as TOML."""
    head = "# Upper bounds that `make lint` checks. Record new ones with `python tools/house.py --write`.\n"
    parts = [
        f"[{room}]\n" + "".join(f"{key} = {value}\n" for key, value in row.items()) for room, row in numbers.items()
    ]
    return head + "\n" + "\n".join(parts)


def find_growth(numbers: dict[str, dict[str, int]], bounds: dict[str, dict[str, int]]) -> list[str]:
    """Return a sentence for each number that is larger than its bound."""
    return [
        f"{room}: {key.replace('_', ' ')} grew from {bounds.get(room, {}).get(key, 0)} to {value}"
        for room, row in numbers.items()
        for key, value in row.items()
        if value > bounds.get(room, {}).get(key, 0)
    ]


def main(words: list[str]) -> int:
    """Measure, then print, write or check."""
    numbers = measure()
    if "--write" in words:
        TABLE.write_text(format_table(numbers))
        return 0
    if "--check" not in words:
        print(format_table(numbers), end="")
        return 0
    sys.path.insert(0, str(ROOT / "src"))
    from ttmem.base import toml

    growth = find_growth(numbers, toml.loads(TABLE.read_text()))
    for sentence in growth:
        print(sentence, file=sys.stderr)
    if growth:
        print(
            "Look for the room and the piece that already do it. If the growth is right, run "
            "'python tools/house.py --write' and commit tools/house.toml with the change.",
            file=sys.stderr,
        )
    return 1 if growth else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
