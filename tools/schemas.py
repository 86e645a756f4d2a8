# SPDX-License-Identifier: Apache-2.0
"""Write docs/schemas from the types of the documents, or check that it is current.

python tools/schemas.py            # write
python tools/schemas.py --check    # exit 1 when the files and the types disagree
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ttmem.reports.kit.documents import Document, find_documents

_OBJECTS = (msgspec.inspect.StructType, msgspec.inspect.DataclassType)
FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas"

_HEAD = """\
<!-- Written by tools/schemas.py from the types of the documents; `make docs` renews it, `make lint` checks it. -->

# Documents

Every `--json` answer names its document under `schema`. Each has a JSON Schema here. Keys may be added, never renamed
or removed; a change that would break a reader gets a new number.

| schema | what it is |
|---|---|
"""


def schema(document: type[Document]) -> dict[str, Any]:
    """A document's JSON Schema: the types' own, with the texts below the fields as descriptions."""
    found = msgspec.json.schema(document, ref_template="#/$defs/{name}")
    identifier = str(document.__struct_config__.tag)
    for name, kind in _kinds(document).items():
        part = found["$defs"][name]
        part["description"] = inspect.getdoc(kind)
        if not issubclass(kind, Document):  # a result is written whole, whatever its fields are made without
            part["required"] = list(part["properties"])
        for field, text in _field_texts(kind).items():
            part["properties"][field]["description"] = text
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": identifier, "title": identifier, **found}


def file_name(identifier: str) -> str:
    """``ttmem.boards-1.json`` for ``ttmem.boards/1``."""
    return f"{identifier.replace('/', '-')}.json"


def files() -> dict[str, str]:
    """Every file of the folder and its text."""
    found = {file_name(name): f"{json.dumps(schema(one), indent=2)}\n" for name, one in find_documents().items()}
    rows = [
        f"| [`{name}`]({file_name(name)}) | {(inspect.getdoc(one) or '').splitlines()[0]} |\n"
        for name, one in find_documents().items()
    ]
    return {**found, "README.md": _HEAD + "".join(rows)}


def _kinds(document: type[Document]) -> dict[str, type]:
    """The document and every part that it is made of, by name."""
    found: dict[str, type] = {}

    def walk(kind: msgspec.inspect.Type) -> None:
        if (
            isinstance(kind, (msgspec.inspect.StructType, msgspec.inspect.DataclassType))
            and kind.cls.__name__ not in found
        ):
            found[kind.cls.__name__] = kind.cls
            for field in kind.fields:
                walk(field.type)
        for inner in _inner(kind):
            walk(inner)

    walk(msgspec.inspect.type_info(document))
    return found


def _inner(kind: Any) -> Iterator[msgspec.inspect.Type]:
    for name in ("item_type", "key_type", "value_type"):
        if inner := getattr(kind, name, None):
            yield inner
    yield from getattr(kind, "item_types", ())
    yield from getattr(kind, "types", ())


def _field_texts(kind: Any) -> dict[str, str]:
    """Key -> the text below the field, also of fields that come from a base."""
    keys = {}
    if issubclass(kind, Document):
        keys = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    return {
        keys.get(field, field): text
        for base in reversed(kind.__mro__)
        if base.__module__.startswith("ttmem.")
        for field, text in _texts_of_module(base.__module__).get(base.__name__, {}).items()
    }


@cache
def _texts_of_module(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        part.name: {
            field.target.id: inspect.cleandoc(text.value.value)
            for field, text in zip(part.body, part.body[1:], strict=False)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
        }
        for part in tree.body
        if isinstance(part, ast.ClassDef)
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Write docs/schemas from the types of the documents.")
    parser.add_argument("--check", action="store_true", help="only say whether the files are current")
    wanted = files()
    there = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*") if path.is_file()}
    if parser.parse_args().check:
        wrong = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
        if wrong:
            print(f"docs/schemas is not what the types say ({', '.join(wrong)}); run `make docs`", file=sys.stderr)
        return 1 if wrong else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in there.keys() - wanted.keys():
        (FOLDER / name).unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
