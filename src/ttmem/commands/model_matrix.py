# SPDX-License-Identifier: Apache-2.0
"""Many models on many boards: ``ttmem fit --list``."""

from collections.abc import Sequence
from pathlib import Path

from ttmem.hardware import BOARDS
from ttmem.operators.sweeps.distribute import Remark
from ttmem.prediction.model_matrix import ListedModel, Progress, make_matrix
from ttmem.reports.model_matrix import files
from ttmem.reports.model_matrix.document import AtlasDocument, document


def atlas(
    models: Sequence[ListedModel],
    boards: Sequence[str],
    folder: str | Path,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
    remark: Remark | None = None,
) -> AtlasDocument:
    """Answer all models on the boards (``["all"]``: every one), and write the tables into the folder."""
    place = Path(folder)
    names = board_names(boards)
    rows = make_matrix(models, names, place, workers=workers, scheduler=scheduler, progress=progress, remark=remark)
    made = document(rows)
    files.write(made, place)
    return made


def board_names(boards: Sequence[str]) -> list[str]:
    """Each once, in the registry's words."""
    if "all" in boards:
        return [board.name for board in BOARDS if board.runs_operations]
    return list(dict.fromkeys(BOARDS.find(word).name for word in boards))
