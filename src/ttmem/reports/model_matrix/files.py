# SPDX-License-Identifier: Apache-2.0
"""The files of an atlas: the document, one row per answer as CSV, models by boards as Markdown and as a page."""

from pathlib import Path

from ttmem.base.atomic_files import write_text
from ttmem.prediction.model_matrix import AtlasRow
from ttmem.reports.kit.documents import indented
from ttmem.reports.kit.drawings import Matrix, Outcome
from ttmem.reports.kit.pages import Card, Section, page
from ttmem.reports.kit.tables import Table, csv, markdown, name_column, number_column, percent_column
from ttmem.reports.kit.units import percent
from ttmem.reports.model_matrix.document import AtlasDocument

JSON, CSV, MARKDOWN, PAGE = "atlas.json", "atlas.csv", "atlas.md", "atlas.html"
_WORDS = {True: "fits", False: "NO", None: "?"}
_VERDICTS = {True: "fits", False: "does not fit", None: "failed to load"}
_OUTCOMES = (Outcome("fits", "ok"), Outcome("does not fit", "alarm"), Outcome("failed to load", "none"))


def write(document: AtlasDocument, folder: Path) -> list[Path]:
    """All of them, each at once."""
    table = "\n".join(markdown(overview(document)))
    texts = {
        JSON: indented(document.to_json()),
        CSV: csv(details(document)),
        MARKDOWN: f"# Which model fits which board\n\n{_summary(document)}\n\n{table}\n"
        + "".join(f"\n- {row.model} on {row.board}: {_why(row)}" for row in document.rows if _why(row))
        + "\n",
        PAGE: _page(document),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def verdict(row: AtlasRow) -> str:
    """In words, with how full the memory that failed gets, or DRAM."""
    memory, share = _fullest(row)
    return f"{_VERDICTS[row.fits]}{share and f', {memory} {share}'}"


def overview(document: AtlasDocument) -> Table:
    """A row per model, a column per board: whether it fits, and how full DRAM (or the memory that failed) gets."""
    cells = {(row.model, row.board): row for row in document.rows}
    models = list(dict.fromkeys(row.model for row in document.rows))
    rows = [[model, *(_cell(cells.get((model, board))) for board in document.boards)] for model in models]
    return Table.of_texts(["model", *document.boards], rows, left=1)


def details(document: AtlasDocument) -> Table:
    """A row per answer, with every figure."""
    columns = [
        name_column("model"),
        name_column("board"),
        name_column("fits"),
        percent_column("DRAM peak %"),
        percent_column("L1 peak %"),
        number_column("weights B"),
        number_column("KV cache B"),
        number_column("activations B"),
        number_column("exact"),
        number_column("bounded"),
        number_column("unknown"),
        name_column("engine"),
        name_column("why"),
    ]
    rows = [
        [
            *(row.model, row.board, _WORDS[row.fits], row.dram_peak_percent, row.l1_peak_percent, row.weights_bytes),
            *(row.kv_cache_bytes, row.activations_peak_bytes, row.exact, row.bounded, row.unknown, row.engine),
            _why(row),
        ]
        for row in document.rows
    ]
    return Table(columns, rows)


def _why(row: AtlasRow) -> str:
    return row.reason or row.failure


def _cell(row: AtlasRow | None) -> str:
    if row is None:
        return "-"
    memory, share = _fullest(row)
    return " ".join(filter(None, (_WORDS[row.fits], memory if memory != "DRAM" else "", share)))


def _fullest(row: AtlasRow) -> tuple[str, str]:
    """The memory that failed (DRAM where none did) and how full it gets; no figure for L1_SMALL and TRACE."""
    memory = row.failed_memory or "DRAM"
    share = {"DRAM": row.dram_peak_percent, "L1": row.l1_peak_percent}.get(memory)
    return memory, "" if share is None else percent(share)


def _summary(document: AtlasDocument) -> str:
    unknown = f", {document.not_known} failed to load" if document.not_known else ""
    return (
        f"{document.models} models on {len(document.boards)} boards: {document.fits} fit, "
        f"{document.does_not_fit} do not fit{unknown}. Figures: how full DRAM gets, or the memory "
        "that failed."
    )


def _page(document: AtlasDocument) -> str:
    cells = {(row.model, row.board): row for row in document.rows}
    models = list(dict.fromkeys(row.model for row in document.rows))
    places = {True: 0, False: 1, None: 2}
    drawing = Matrix(
        title="Models by boards",
        rows=models,
        columns=document.boards,
        cells=[[places[cells[model, board].fits] for board in document.boards] for model in models],
        remarks=[
            [f"{_cell(cells[model, board])} {_why(cells[model, board])}".strip() for board in document.boards]
            for model in models
        ],
        outcomes=_OUTCOMES,
    )
    return page(
        title="Which model fits which board",
        subtitle=_summary(document),
        cards=[
            Card("Fit", str(document.fits)),
            Card("Do not fit", str(document.does_not_fit), level="alarm" if document.does_not_fit else "ok"),
            Card("Errors", str(document.not_known), level="alarm" if document.not_known else "ok"),
        ],
        sections=[
            Section("models", "Models by boards", [overview(document)], drawing=drawing),
            Section("answers", "All answers", [details(document)]),
        ],
    )
