# SPDX-License-Identifier: Apache-2.0
"""``ttmem fit``: Predict whether a model fits a board."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.base.errors import BadInputError
from ttmem.commands import options
from ttmem.commands.command_line import verb
from ttmem.commands.output import emit, json_text, looks, note
from ttmem.commands.profile_answer import print_next_command, render_profile, store_profile, try_store

if TYPE_CHECKING:
    from ttmem.prediction.advice import RequestChange
    from ttmem.prediction.answer import PredictionAnswer
    from ttmem.prediction.largest import LargestPrediction
    from ttmem.prediction.request import Capacity, Prediction, Request
    from ttmem.profile.model import Profile
    from ttmem.reports.fit import FitDocument


@dataclass(frozen=True, eq=False)
class Fit:
    """The predicted run, and what was searched with it."""

    answer: PredictionAnswer

    @property
    def prediction(self) -> Prediction:
        """The predicted run: of the model itself, or of the largest that fits."""
        return self.answer.prediction

    @property
    def advice(self) -> tuple[RequestChange, ...]:
        """Changes that would make it fit, the smallest first; empty when it fits."""
        return self.answer.advice

    @property
    def largest(self) -> LargestPrediction | None:
        """The largest that fits, where it was searched."""
        return self.answer.largest

    @property
    def fits(self) -> bool:
        """True when nothing runs out of memory."""
        return self.prediction.fits

    @cached_property
    def profile(self) -> Profile:
        """A profile of kind ``predicted``: every report, ``diff`` and ``check`` take it; its facts hold the answer."""
        profile = self.prediction.profile
        return replace(profile, facts={**profile.facts, "fit": self.to_json()})

    @cached_property
    def capacity(self) -> Capacity | None:
        """The users by context that fit, for a language model that a recipe lays out; searched on first use."""
        from ttmem.prediction.language.configuration import wants_recipe
        from ttmem.prediction.largest import find_capacity

        request = self.prediction.request
        return find_capacity(request) if self.largest is None and wants_recipe(request) else None

    @cached_property
    def document(self) -> FitDocument:
        """The document of ``ttmem fit --json``."""
        from ttmem.reports.fit import build_document

        found = {self.largest.quantity: self.largest.value} if self.largest else None
        return build_document(self.prediction, self.advice, maximum=found, capacity=self.capacity)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``ttmem fit --json``."""
        return self.document.to_json()


def fit(
    target: str,
    *,
    board: str = "n150",
    weights: str | Mapping[str, str] | None = None,
    maximum: str | None = None,
    advice: bool = True,
    python: str | None = None,
    ttnn: str | None = None,
    **request: Any,
) -> Fit:
    """Predict whether a model fits a board, and how full it gets.

    ``target`` is ``"model.py::load_model"``, ``"hf:ViTConfig"``, or a ttnn script, which is run. ``weights`` is a data
    type for all weights or a mapping of kinds to types; ``request`` are the other fields of
    ``ttmem.prediction.request.Request`` (``batch``, ``size``, ``sequence``, ...). ``maximum`` (``"batch"``,
    ``"context"``, ...) searches the largest that fits; ``advice=False`` saves the time to predict the changes that
    would help. ``python`` is an interpreter that has ttnn, ``ttnn`` a release.
    """
    from ttmem.engines.interpreters import choose_python
    from ttmem.prediction.answer import build_request, predict_request

    built = build_request(target, board=board, weights=weights, python=choose_python(python, ttnn), **request)
    return Fit(predict_request(built, maximum, advice=advice))


@dataclass(frozen=True)
class ModelOptions:
    """The options that describe a model, as typed; a line of ``--list`` has these alone."""

    target: str | None
    inputs: str | None
    board: str
    engine: str
    batch: int
    size: str | None
    sequence: int | None
    dtype: str
    weights: str | None
    attention: str
    liveness: str
    chips: int | None
    phase: str | None
    users: int | None
    context: int | None
    kv_cache: str | None
    recipe: str
    prefill_chunk: int | None
    settings: tuple[str, ...]
    l1_small: int
    trace_region: int
    python: str | None
    ttnn: str | None
    torch_python: str | None

    def build_request(self) -> Request:
        """Return the request of these options."""
        from ttmem.engines.interpreters import choose_python
        from ttmem.prediction.answer import build_request

        if self.target is None:
            raise BadInputError("missing argument TARGET", hint="ttmem fit TARGET, or --list FILE")
        given = {field.name: getattr(self, field.name) for field in fields(ModelOptions)}
        given["size"] = options.parse_image_size(self.size) if self.size else None
        given["inputs"] = self.inputs or ""
        given["weights"] = _parse_weights(self.weights)
        given["settings"] = options.parse_settings(self.settings)
        given["l1_small_bytes"] = given.pop("l1_small")
        given["trace_region_bytes"] = given.pop("trace_region")
        given["python"] = choose_python(self.python, given.pop("ttnn"))
        return build_request(**given)


@dataclass(frozen=True)
class FitOptions(ModelOptions):
    """The options of a call, as typed."""

    maximum: str | None
    list_path: Path | None
    workers: int | None
    scheduler: str | None
    boards: tuple[str, ...]
    ranges: str | None
    as_csv: bool
    plot: Path | None
    no_advice: bool
    as_json: bool
    html_path: Path | None
    name: str | None
    no_store: bool
    output: Path | None
    quiet: bool


@verb("""
ttmem fit hf:ViTConfig --size 384x384 --batch 8 --engine twin
ttmem fit model.py::load_model --inputs model.py::get_inputs --weights bfloat8_b --json
ttmem fit block.py --board n150
ttmem fit ttnn_decode.mlir --board p150
ttmem fit --list models.txt --boards all -o atlas
""")
@click.argument("target", metavar="TARGET", required=False)
@options.list_options
@options.inputs_option
@options.board_option("The board; see 'ttmem boards'.")
@options.choice_option(
    "--engine",
    "auto",
    "mock",
    "twin",
    help="The real library without a card, or the twin; auto: the real library where it is installed.",
)
@options.batch_option
@click.option("--size", metavar="HxW", help="Image size (default: the model's own).")
@options.count_option("--seq", "sequence", help="Tokens of a text model (default 128).")
@click.option("--dtype", default="bfloat16", show_default=True, metavar="TYPE", help="Data type of the activations.")
@click.option("--weights", metavar="TYPE|KIND=TYPE,..", help="Data type of the weights, of all or by kind.")
@options.attention_option
@options.choice_option(
    "--liveness", "last-use", "python", help="Free tensors after their last use, or when Python drops them."
)
@options.count_option("--chips", help="Chips a language model is split over (default: the board's).")
@click.option("--phase", type=click.Choice(["prefill", "decode"]), help="Phase of a language model.")
@options.count_option("--users", help="Sequences at the same time.")
@options.count_option("--context", help="Tokens that the KV cache holds for each user.")
@click.option("--kv-cache", metavar="TYPE", help="Data type of the KV cache.")
@click.option(
    "--recipe", default="generic", show_default=True, metavar="NAME|FILE", help="Memory layout of the software stack."
)
@click.option(
    "--max",
    "maximum",
    type=click.Choice(["batch", "size", "seq", "context", "users"]),
    help="Search for the largest value that fits.",
)
@options.count_option("--prefill-chunk", help="Tokens that prefill processes at a time.")
@options.settings_option
@options.bytes_option("--l1-small", "L1_SMALL region per core.", default=32768, show_default=True)
@options.bytes_option("--trace-region", "TRACE region in DRAM.", default=0, show_default=True)
@options.python_option()
@options.ttnn_option
@click.option("--torch-python", metavar="PATH", help="An interpreter that has torch (also: TTMEM_TORCH_PYTHON).")
@options.words_option("--boards", metavar="BOARD,..|all", help="Predict for several boards, as one table.")
@click.option("--sweep", "ranges", metavar="RANGES", help="Predict for ranges of values: batch=1..64,size=224|640.")
@click.option("--csv", "as_csv", is_flag=True, help="With --sweep: one row per point.")
@options.file_option("--plot", help="With --sweep: plot how full DRAM gets (SVG).")
@click.option("--no-advice", is_flag=True, help="Do not fit the changes that would help (faster).")
@options.json_option
@options.file_option("--html", "html_path", help="Also write the predicted run as one offline page.")
@click.option("--name", metavar="NAME", help="Name of the report (default: that of the model).")
@options.no_store_option
@options.quiet_option
def command(**given: Any) -> int:
    """Predict whether TARGET fits a board, how full it gets, and what fails first. Exit 1 when it does not fit.

    TARGET is a function that returns a torch model (FILE.py::load_model), a transformers config (hf:ViTConfig), a
    compiled TTNN module (.mlir, or a log that holds one), or a ttnn script, which is run. Models are traced without
    weights, and their calls are played on the real library on a mock board or on its model in Python. The predicted run
    is stored like a measured one.

    With --list every line of FILE is a TARGET with its options; -o is then a folder, which a second call resumes.
    """
    asked = _read_boards(FitOptions(**given))
    if asked.list_path is not None:
        from ttmem.commands.fit_list import fit_list

        model_options = {field.name for field in fields(ModelOptions)}
        return fit_list(asked, command, model_options)
    if asked.name is not None:
        from ttmem.profile import store

        asked = replace(asked, name=store.check_name(asked.name))
    request = asked.build_request()
    if (asked.as_csv or asked.plot) and not asked.ranges:
        raise click.UsageError("--csv and --plot show a --sweep")
    if asked.html_path and (asked.boards or asked.ranges):
        raise click.UsageError("--html shows one run: leave --boards and --sweep out")
    if asked.boards and asked.ranges:
        raise click.UsageError("--boards and --sweep cannot be asked together")
    if asked.boards:
        return _fit_boards(request, asked)
    return _fit_once(request, asked) if asked.ranges is None else _fit_ranges(request, asked, asked.ranges)


def _read_boards(asked: FitOptions) -> FitOptions:
    """Read ``--board n150,p150`` as ``--boards n150,p150``, as in other verbs."""
    named = tuple(word.strip() for word in asked.board.split(",") if word.strip())
    if len(named) < 2 and named != ("all",):
        return asked
    if asked.boards:
        raise click.UsageError("--board and --boards both name several boards: choose one")
    return replace(asked, board="n150", boards=named)


def _fit_once(request: Request, asked: FitOptions) -> int:
    """Print and store one prediction; 1 when it does not fit."""
    from ttmem.prediction.answer import predict_request
    from ttmem.reports.fit import render_terminal

    found = Fit(predict_request(request, asked.maximum, advice=not asked.no_advice))
    answer = found.document
    shown = json_text(answer) if asked.as_json else render_terminal(answer, **looks(asked.output))
    if asked.html_path:
        emit(render_profile(found.profile, "html"), asked.html_path)
        note(f"wrote {asked.html_path}", quiet=asked.quiet)
    kept = None
    if not asked.no_store:
        origin = os.path.realpath(request.target)
        kept = try_store(lambda: store_profile(found.profile, origin=origin, name=asked.name))
    emit(shown, asked.output)
    print_next_command(found.profile, kept, quiet=asked.quiet)
    return 0 if found.fits else 1


def _fit_boards(request: Request, asked: FitOptions) -> int:
    """Print one answer per board; 1 when it fits none."""
    from ttmem.prediction.answer import list_boards, predict_on_boards
    from ttmem.reports.fit import FitBoards, render_boards

    _refuse_maximum(asked, "--boards")
    found = [Fit(answer) for answer in predict_on_boards(request, list_boards(asked.boards))]
    answer = FitBoards(boards=[one.document for one in found])
    emit(json_text(answer) if asked.as_json else render_boards(answer), asked.output)
    return 0 if any(one.fits for one in found) else 1


def _fit_ranges(request: Request, asked: FitOptions, ranges: str) -> int:
    """Print one row per point; 1 when none fits."""
    from ttmem.prediction.answer import predict_ranges
    from ttmem.reports import fit as report

    form = options.choose_one(json=asked.as_json, csv=asked.as_csv)
    _refuse_maximum(asked, "--sweep")
    answer = report.build_sweep(predict_ranges(request, ranges))
    if asked.plot:
        emit(report.render_sweep_svg(answer), asked.plot)
    renderers = {"json": json_text, "csv": report.render_sweep_csv}
    emit(renderers.get(form or "", report.render_sweep_terminal)(answer), asked.output)
    return 0 if any(one.fits for one in answer.points) else 1


def _refuse_maximum(asked: FitOptions, option: str) -> None:
    if asked.maximum:
        raise click.UsageError(f"--max and {option} cannot be asked together")


def _parse_weights(text: str | None) -> dict[str, str]:
    """Parse ``bfloat8_b``, or ``mlp=bfloat4_b,attn=bfloat8_b``."""
    found: dict[str, str] = {}
    for word in (text or "").split(","):
        kind, equals, dtype = word.partition("=") if "=" in word else ("", "=", word)
        if text and not (dtype.strip() and equals):
            raise BadInputError(
                f"'{text}' names no data types", hint="--weights bfloat8_b, or mlp=bfloat4_b,attn=bfloat8_b"
            )
        if dtype.strip():
            found[kind.strip()] = dtype.strip()
    return found
