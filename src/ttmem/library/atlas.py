# SPDX-License-Identifier: Apache-2.0
"""Many models on many boards: ``ttmem fit --list``."""

from collections.abc import Sequence
from pathlib import Path

from ttmem.fit.atlas import ListedModel, Progress, make_atlas
from ttmem.hardware import BOARDS
from ttmem.reports.atlas import files
from ttmem.reports.atlas.document import AtlasDocument, document


def atlas(
    models: Sequence[ListedModel],
    boards: str | Sequence[str],
    folder: str | Path,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> AtlasDocument:
    """Answer all models on all boards (``"all"``, ``"n150,p150"`` or a list), and write the tables into the folder."""
    place = Path(folder)
    rows = make_atlas(models, board_names(boards), place, workers=workers, scheduler=scheduler, progress=progress)
    made = document(rows)
    files.write(made, place)
    return made


def board_names(boards: str | Sequence[str]) -> list[str]:
    """``all``, or names with commas between them; each once, in the registry's words."""
    if boards == "all":
        return [board.name for board in BOARDS]
    words = boards.split(",") if isinstance(boards, str) else boards
    return list(dict.fromkeys(BOARDS.find(word.strip()).name for word in words))
