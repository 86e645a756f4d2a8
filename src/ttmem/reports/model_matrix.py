# SPDX-License-Identifier: Apache-2.0
"""Models by boards: the answer and the files of ``ttmem fit --list``."""

from collections.abc import Sequence
from pathlib import Path

from ttmem.base.atomic_files import write_text
from ttmem.base.formatting import format_percent
from ttmem.prediction.model_matrix import MatrixRow
from ttmem.reports.kit.charts import Matrix, MatrixOutcome
from ttmem.reports.kit.documents import Document, format_json
from ttmem.reports.kit.pages import Card, Section, render_page
from ttmem.reports.kit.tables import Table, format_csv, format_markdown, name_column, number_column, percent_column


class AtlasDocument(Document, frozen=True, tag_field="schema", tag="ttmem.atlas/1"):
    """Many models on many boards."""

    models: int
    boards: Sequence[str]
    fits: int
    does_not_fit: int
    not_known: int
    rows: Sequence[MatrixRow]


def build_document(rows: Sequence[MatrixRow]) -> AtlasDocument:
    """Build the document, in the order of the list."""
    return AtlasDocument(
        models=len({row.model for row in rows}),
        boards=list(dict.fromkeys(row.board for row in rows)),
        fits=sum(row.fits is True for row in rows),
        does_not_fit=sum(row.fits is False for row in rows),
        not_known=sum(row.fits is None for row in rows),
        rows=list(rows),
    )


JSON, CSV, MARKDOWN, PAGE = "atlas.json", "atlas.csv", "atlas.md", "atlas.html"
_WORDS = {True: "fits", False: "NO", None: "?"}
_VERDICTS = {True: "fits", False: "does not fit", None: "failed to load"}
_OUTCOMES = (
    MatrixOutcome("fits", "ok"),
    MatrixOutcome("does not fit", "alarm"),
    MatrixOutcome("failed to load", "none"),
)


def write_files(document: AtlasDocument, folder: Path) -> list[Path]:
    """Write all files of the matrix, each atomically."""
    table = "\n".join(format_markdown(build_overview(document)))
    texts = {
        JSON: format_json(document.to_json()),
        CSV: format_csv(build_details(document)),
        MARKDOWN: f"# Which model fits which board\n\n{_summarize(document)}\n\n{table}\n"
        + "".join(f"\n- {row.model} on {row.board}: {_explain_row(row)}" for row in document.rows if _explain_row(row))
        + "\n",
        PAGE: _render_page(document),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def describe_verdict(row: MatrixRow) -> str:
    """Describe in words whether it fits, and how full DRAM (or the memory that failed) gets."""
    memory, share = _find_fullest(row)
    return f"{_VERDICTS[row.fits]}{share and f', {memory} {share}'}"


def build_overview(document: AtlasDocument) -> Table:
    """Build one row per model and one column per board: whether it fits, and how full DRAM gets."""
    cells = {(row.model, row.board): row for row in document.rows}
    models = list(dict.fromkeys(row.model for row in document.rows))
    rows = [[model, *(_format_cell(cells.get((model, board))) for board in document.boards)] for model in models]
    return Table.build(["model", *document.boards], rows, left=1)


def build_details(document: AtlasDocument) -> Table:
    """Build a table with one row per answer, with all figures."""
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
            _explain_row(row),
        ]
        for row in document.rows
    ]
    return Table(columns, rows)


def _explain_row(row: MatrixRow) -> str:
    return row.reason or row.failure


def _format_cell(row: MatrixRow | None) -> str:
    if row is None:
        return "-"
    memory, share = _find_fullest(row)
    return " ".join(filter(None, (_WORDS[row.fits], memory if memory != "DRAM" else "", share)))


def _find_fullest(row: MatrixRow) -> tuple[str, str]:
    """Return the memory that failed, or DRAM, and how full it gets; no figure for L1_SMALL and TRACE."""
    memory = row.failed_memory or "DRAM"
    share = {"DRAM": row.dram_peak_percent, "L1": row.l1_peak_percent}.get(memory)
    return memory, "" if share is None else format_percent(share)


def _summarize(document: AtlasDocument) -> str:
    unknown = f", {document.not_known} failed to load" if document.not_known else ""
    return (
        f"{document.models} models on {len(document.boards)} boards: {document.fits} fit, "
        f"{document.does_not_fit} do not fit{unknown}. Figures: how full DRAM gets, or the memory "
        "that failed."
    )


def _render_page(document: AtlasDocument) -> str:
    cells = {(row.model, row.board): row for row in document.rows}
    models = list(dict.fromkeys(row.model for row in document.rows))
    places = {True: 0, False: 1, None: 2}
    drawing = Matrix(
        title="Models by boards",
        rows=models,
        columns=document.boards,
        cells=[[places[cells[model, board].fits] for board in document.boards] for model in models],
        remarks=[
            [
                f"{_format_cell(cells[model, board])} {_explain_row(cells[model, board])}".strip()
                for board in document.boards
            ]
            for model in models
        ],
        outcomes=_OUTCOMES,
    )
    return render_page(
        title="Which model fits which board",
        subtitle=_summarize(document),
        cards=[
            Card("Fit", str(document.fits)),
            Card("Do not fit", str(document.does_not_fit), level="alarm" if document.does_not_fit else "ok"),
            Card("Errors", str(document.not_known), level="alarm" if document.not_known else "ok"),
        ],
        sections=[
            Section("models", "Models by boards", [build_overview(document)], drawing=drawing),
            Section("answers", "All answers", [build_details(document)]),
        ],
    )
