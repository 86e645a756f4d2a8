# SPDX-License-Identifier: Apache-2.0
"""``ttmem fit --list FILE``: many models on many boards; a line is a target with its options."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ttmem.base.errors import BadInputError
from ttmem.base.limits import LIST_BYTES
from ttmem.base.text_files import read_text
from ttmem.base.text_safety import one_line
from ttmem.commands.output import emit, json_text, looks, note, progress_bar, say

if TYPE_CHECKING:
    from ttmem.commands.fit import FitOptions
    from ttmem.prediction.model_matrix import ListedModel, MatrixRow, Progress

_LINE = "a line is a TARGET and its options: hf:ViTConfig --size 640x640"
_COMMAND_LINE_ONLY = {"python", "torch_python", "board"}
"""Options that a line cannot have: an interpreter may be any program, and boards are those of the whole table."""


def fit_list(asked: FitOptions, command: click.Command, model_options: Collection[str]) -> int:
    """Predict the whole list; exit 1 when a row could not be answered, 0 however many fit."""
    from ttmem.prediction.answer import list_boards
    from ttmem.prediction.model_matrix import make_matrix
    from ttmem.reports import model_matrix
    from ttmem.reports.kit.console import TextReport

    folder, path, quiet = asked.output, asked.list_path, asked.quiet
    assert path is not None
    if folder is None:
        raise BadInputError("--list needs a folder", hint="-o FOLDER: journal and tables; a second call resumes")
    models = _read_models(path, asked, command, model_options)
    remarks: list[str] = []
    with progress_bar("models", quiet=quiet, of_bytes=False) as progress:
        rows = make_matrix(
            models,
            list_boards(asked.boards or (asked.board,)),
            folder,
            workers=asked.workers or 1,
            scheduler=asked.scheduler,
            progress=_report_rows(progress, quiet=quiet),
            remark=remarks.append,
        )
    matrix = model_matrix.build_document(rows)
    model_matrix.write_files(matrix, folder)
    for text in remarks:
        note(text, quiet=quiet)
    if asked.as_json:
        emit(json_text(matrix), None)
    else:
        report = TextReport(color=looks()["color"])
        report.print(model_matrix.build_overview(matrix))
        emit(report.render(), None)
    names = (model_matrix.CSV, model_matrix.JSON, model_matrix.MARKDOWN)
    note(f"wrote {folder / model_matrix.PAGE}, {names[0]}, {names[1]} and {names[2]}", quiet=quiet)
    failed: dict[tuple[str, str], list[str]] = {}
    for row in matrix.rows:
        if row.fits is None:
            failed.setdefault((row.model, row.reason), []).append(row.board)
    for (model, reason), unanswered in failed.items():
        say(one_line(f"ttmem: error: {model} ({', '.join(unanswered)}): {reason}"))
    return 1 if failed else 0


def _report_rows(bar: Callable[..., None] | None, *, quiet: bool) -> Progress:
    """Return a function that shows each row as it is answered: in the bar of a terminal, else as a line of a log."""
    from ttmem.reports.model_matrix import describe_verdict

    def show(done: int, total: int, row: MatrixRow) -> None:
        place = f"{row.model} on {row.board}"
        if bar:
            bar(done, total, place)
        else:
            note(f"{done} of {total}: {place}: {describe_verdict(row)} ({row.seconds} s)", quiet=quiet)

    return show


def _read_models(
    path: Path, asked: FitOptions, command: click.Command, model_options: Collection[str]
) -> list[ListedModel]:
    """Read one model per line; where a line has no option, that of the call counts."""
    from ttmem.prediction.model_matrix import ListedModel

    models = []
    text = read_text(path, most=LIST_BYTES, what="a list of models")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            words = shlex.split(line, comments=True)
            if not words:
                continue
            context = command.make_context("fit", list(words), help_option_names=[])
        except (ValueError, click.UsageError) as error:
            message = error.format_message() if isinstance(error, click.UsageError) else str(error)
            raise BadInputError(message, where=where, hint=_LINE) from None
        given = {
            name: value
            for name, value in context.params.items()
            if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        }
        for param in command.params:
            if param.name in given and param.name not in set(model_options) - _COMMAND_LINE_ONLY:
                option = max(param.opts, key=len)
                hint = f"{_LINE}; {option} belongs on the command line"
                raise BadInputError(f"{option} cannot be part of a line", where=where, hint=hint)
        if not given.get("target"):
            raise BadInputError("a line needs a TARGET", where=where, hint="hf:ViTConfig --size 640x640")
        try:
            models.append(ListedModel(" ".join(words), replace(asked, **given).build_request()))
        except BadInputError as error:
            raise BadInputError(error.message, where=where, hint=error.hint) from None
    if not models:
        raise BadInputError("lists no model", where=str(path), hint="one line per model: a TARGET and its options")
    return models
