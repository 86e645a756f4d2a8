# SPDX-License-Identifier: Apache-2.0
"""``ttmem fit --list FILE``: a line is what would follow ``ttmem fit``, a target and its options."""

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.base.errors import BadInputError
from ttmem.base.limits import LIST_BYTES
from ttmem.base.text_files import read_text
from ttmem.base.text_safety import one_line
from ttmem.commands._progress import progress_bar
from ttmem.commands.output import color_wanted, emit, json_text, note, say

if TYPE_CHECKING:
    from ttmem.prediction.model_matrix import MatrixRow, Progress

Fields = Callable[[dict[str, Any]], dict[str, Any]]
_LINE = "a line is a TARGET and its options: hf:ViTConfig --size 640x640"
_OF_ALL = {"python", "torch_python", "board"}
"""For the command line alone: an interpreter may be any program, and boards are those of the whole table."""


def run(
    list_path: Path,
    command: click.Command,
    fields_of: Fields,
    common: dict[str, Any],
    *,
    boards: Sequence[str],
    folder: Path | None,
    workers: int | None,
    scheduler: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Answer the whole list; exit 1 when a row could not be answered, 0 however many fit."""
    from ttmem.commands.library.fit import request_of
    from ttmem.commands.model_matrix import atlas
    from ttmem.engines.interpreters import chosen_python
    from ttmem.prediction.model_matrix import ListedModel
    from ttmem.reports.kit.console import TextReport
    from ttmem.reports.model_matrix import files

    if folder is None:
        raise BadInputError("--list needs a folder", hint="-o FOLDER: journal and tables; a second call resumes")
    models = []
    for where, text, params in _lines(list_path, command, common):
        try:
            fields = fields_of(params)
            python = chosen_python(fields.pop("python"), fields.pop("ttnn"))
            models.append(ListedModel(text, request_of(fields.pop("target"), python=python, **fields)))
        except BadInputError as error:
            raise BadInputError(error.message, where=where, hint=error.hint) from None
    remarks: list[str] = []
    with progress_bar("models", quiet=quiet, of_bytes=False) as progress:
        made = atlas(
            models,
            boards,
            folder,
            workers=workers or 1,
            scheduler=scheduler,
            progress=_shown(progress, quiet=quiet),
            remark=remarks.append,
        )
    for text in remarks:
        note(text, quiet=quiet)
    if as_json:
        emit(json_text(made), None)
    else:
        report = TextReport(color=color_wanted(sys.stdout))
        report.print(files.overview(made))
        emit(report.text(), None)
    note(f"wrote {folder / files.PAGE}, {files.CSV}, {files.JSON} and {files.MARKDOWN}", quiet=quiet)
    failed: dict[tuple[str, str], list[str]] = {}
    for row in made.rows:
        if row.fits is None:
            failed.setdefault((row.model, row.reason), []).append(row.board)
    for (model, reason), unanswered in failed.items():
        say(one_line(f"ttmem: error: {model} ({', '.join(unanswered)}): {reason}"))
    return 1 if failed else 0


def _shown(bar: Callable[..., None] | None, *, quiet: bool) -> "Progress":
    """Each row as it is answered: in the bar of a terminal, as a line of a log."""
    from ttmem.reports.model_matrix.files import verdict

    def show(done: int, total: int, row: "MatrixRow") -> None:
        if bar:
            bar(done, total, f"{row.model} on {row.board}")
        else:
            note(f"{done} of {total}: {row.model} on {row.board}: {verdict(row)} ({row.seconds} s)", quiet=quiet)

    return show


def _lines(path: Path, command: click.Command, common: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Place, text and parameters of each line; the options of the call itself hold where a line says nothing."""
    text = read_text(path, most=LIST_BYTES, what="a list of models")
    found = []
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
            if param.name in given and param.name not in {"target", *common} - _OF_ALL:
                option = max(param.opts, key=len)
                raise BadInputError(f"{option} cannot be part of a line", where=where, hint=f"{_LINE}; {option} "
                                    "belongs on the command line")  # fmt: skip
        if not given.get("target"):
            raise BadInputError("a line needs a TARGET", where=where, hint="hf:ViTConfig --size 640x640")
        found.append((where, " ".join(words), {**common, **given}))
    if not found:
        raise BadInputError("lists no model", where=str(path), hint="one line per model: a TARGET and its options")
    return found
