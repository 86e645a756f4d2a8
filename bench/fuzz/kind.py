# SPDX-License-Identifier: Apache-2.0
"""What a source of the fuzz run is."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.mutations import mutated

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"


@dataclass(frozen=True, slots=True)
class Kind:
    """Valid content, the ending of its file's name, and the verbs that take it."""

    name: str
    content: bytes
    ending: str
    commands: tuple[str, ...]
    """``{}`` is the file, ``{dir}`` the folder of the case."""
    file: str = ""
    """What the file has to be called, below the folder."""
    beside: Mapping[str, bytes] = field(default_factory=dict)
    """Other files that the command needs; these are not changed."""
    change: Callable[[random.Random, bytes], bytes] = mutated

    def written(self, content: bytes, folder: Path) -> Path:
        """The file, with all that it needs around it."""
        path = folder / (self.file or f"input{self.ending}")
        for place, text in ((path, content), *((folder / name, text) for name, text in self.beside.items())):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text.replace(b"{dir}", str(folder).encode()))
        return path
