# SPDX-License-Identifier: Apache-2.0
"""What the verbs of ``ttmem ops`` share: asking the real library on a mock board, and folders of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttmem.base.errors import BadInputError

if TYPE_CHECKING:
    from ttmem.operators.case_program import Recipe

L1_SMALL_BYTES = 32768
"""What sweeps open with: convolutions and pools need it."""


def statuses_on_mock(
    recipes: Sequence[Recipe], label: str, *, board: str, python: str | None, quiet: bool
) -> tuple[list[str], Any]:
    """What the real library says of every recipe, and the pools of the board that it opened."""
    from ttmem.commands._progress import progress_bar
    from ttmem.engines.ttnn import TtnnEngine

    found: list[str] = []
    with (
        progress_bar(label, quiet=quiet, of_bytes=False) as progress,
        TtnnEngine(board=board, python=python, l1_small_bytes=L1_SMALL_BYTES, measure_programs=False) as engine,
    ):
        for outcome in engine.ask_all([recipe.steps for recipe in recipes], stop=True):
            found.append(outcome.status)
            if progress:
                progress(len(found), len(recipes))
        return found, engine.device["pools"]


def folder_at(place: str) -> Path:
    """Where files go; it is made when they are written."""
    folder = Path(place)
    if folder.exists() and not folder.is_dir():
        raise BadInputError("is not a folder", where=place)
    return folder


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Each of them whole or not at all."""
    from ttmem.base.atomic_files import write_text

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(folder / name, text)
