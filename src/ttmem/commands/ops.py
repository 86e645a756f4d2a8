# SPDX-License-Identifier: Apache-2.0
"""``ttmem ops``: Extract the operators of models, map them to ttnn, write tests."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.base.errors import BadInputError, MissingPartError
from ttmem.commands import options
from ttmem.commands.command_line import GroupWithExamples, debug_option, verb
from ttmem.commands.output import color_wanted, columns, emit, json_text, looks, note, progress_bar

if TYPE_CHECKING:
    from ttmem.operators.case import Case
    from ttmem.operators.case_program import CaseProgram
    from ttmem.operators.pytest_files import Predictions

command = GroupWithExamples(
    "ops",
    help="""Extract the operators of models, map them to ttnn, write tests for them.

A case is one operator with all its shapes, data types and scalars; a case file has one per line and is what
'ttmem sweep' runs.
""",
    epilog="""
ttmem ops extract hf:ViTConfig --size 224x224 -o cases.jsonl
ttmem ops map cases.jsonl
ttmem ops tests cases.jsonl -o generated
""",
    params=[debug_option()],
)


@verb(
    """
ttmem ops extract hf:ViTConfig -o cases.jsonl
ttmem ops extract hf:SwinConfig hf:DetrConfig --size 224x224 --size 2176x3840 -o cases.jsonl
ttmem ops extract model.py::load_model --inputs model.py::get_inputs -o cases.jsonl
ttmem ops extract hf:LlamaConfig --set num_hidden_layers=2 --sequence 128 --attention eager
ttmem ops extract all_cnn_models.csv ttnn_operations_master.json -o cases.jsonl
""",
    group=command,
    line="Extract operators, shapes, types and scalars of models, one case per line.",
)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@options.inputs_option
@click.option("--size", "sizes", multiple=True, metavar="HxW", help="Image size; several trace the model at each.")
@options.settings_option
@options.batch_option
@click.option("--sequence", type=click.IntRange(min=1), default=128, show_default=True, help="Tokens of a text model.")
@options.attention_option
@options.python_option("torch", variable="TTMEM_TORCH_PYTHON")
@options.count_option("-j", "--jobs", help="Models traced at once (default: cores).")
@click.option("--json", "as_json", is_flag=True, help="What each target gave, as one JSON document (needs -o).")
@options.file_option(
    "-o",
    "--output",
    place=options.check_product_path,
    help="Write the cases there, atomically, instead of to stdout (-).",
)
@options.quiet_option
def extract(
    targets: tuple[str, ...],
    inputs: str | None,
    sizes: tuple[str, ...],
    settings: tuple[str, ...],
    batch: int,
    sequence: int,
    attention: str,
    python: str | None,
    jobs: int | None,
    as_json: bool,
    output: Path | None,
    quiet: bool,
) -> int:
    """Extract operators with all shapes, data types, scalars, module paths and counts, one case per line (JSON).

    TARGET is a function that returns a torch model (FILE.py::load_model), a transformers config or model class without
    weights (hf:ViTConfig), an operators CSV (name, shapes, model), a master or sweep JSON of tt-metal, or input
    variations of pytorch2.0_ttnn. Models run on fake tensors: no weights, no data, seconds at any size. One that
    refuses a size is reported and left out; exit 1 when no target gave a case.
    """
    from ttmem.operators.case import cases_text
    from ttmem.operators.extraction import extract as extract_cases
    from ttmem.operators.extraction import is_model
    from ttmem.operators.tracer.job import TraceJob
    from ttmem.reports import ops as report

    if as_json and output is None:
        raise click.UsageError("--json describes the cases; name a file for them with -o")
    for target in targets:
        if not is_model(target):
            options.refuse_overwriting(target, output)
    given = options.parse_settings(settings)
    trace = TraceJob("", inputs or "", None, given, batch, sequence, eager_attention=attention == "eager")
    with progress_bar("extracting", quiet=quiet, of_bytes=False) as progress:
        found = extract_cases(
            targets,
            trace,
            sizes=tuple(dict.fromkeys(options.parse_image_size(text) for text in sizes)),
            python=python,
            workers=jobs or os.cpu_count() or 1,
            progress=progress,
        )
    if found.cases:
        emit(cases_text(found.cases), output)
    if as_json:
        emit(json_text(report.build_extraction(found, attention=attention)), None)
    else:
        table = report.render_extraction(found, width=columns(), color=color_wanted(sys.stderr))
        note(table.rstrip("\n"), quiet=quiet)
    for source in (one for one in found.sources if one.refusal):
        lacks_package = source.refusal.startswith(("ImportError", "ModuleNotFoundError"))
        how = "cannot be built here" if lacks_package else f"refuses {source.size or 'its own size'}"
        note(f"ttmem: {source.model} {how}: {source.refusal}", quiet=quiet)
    return 0 if found.cases else 1


@verb(
    """
ttmem ops map
ttmem ops map cases.jsonl
ttmem ops map cases.jsonl -o mapping --engine mock --board n150
ttmem ops map --json
""",
    group=command,
    line="List the ttnn call of each operator, and what is supported.",
)
@click.argument("cases", required=False, metavar="[CASES]")
@options.json_option
@click.option("-o", "--output", metavar="DIR", help="Write the mapping files and the compatibility matrix there.")
@click.option("--engine", type=click.Choice(["mock"]), help="Try each operator's example on the real ttnn, on a mock.")
@options.board_option("The mock board for --engine.")
@options.python_option()
@options.quiet_option
def map_(cases: str | None, as_json: bool, output: str | None, engine: str | None, quiet: bool, **mock: Any) -> None:
    """List the ttnn call of every aten operator, its kind and what is supported.

    With CASES (from 'ttmem ops extract'): the operators used there, how often, and how many cases can be run. -o writes
    basic_operators.json, operator_mapping.json, mapping_analysis.json and compatibility_matrix.md. --engine mock calls
    each operator's example in both memories and layouts.
    """
    from ttmem.operators.case import read_cases
    from ttmem.operators.mapping import map_cases
    from ttmem.operators.mock_statuses import try_examples
    from ttmem.reports import ops as report

    folder = None if output is None else _check_folder(output)
    listed = read_cases(cases) if cases else None
    wanted = {case.op for case in listed} if listed is not None else None
    tried = None
    if engine:
        with progress_bar("trying", quiet=quiet, of_bytes=False) as progress:
            tried = try_examples(wanted, progress=progress, **mock)
    mapped = map_cases(listed, tried)
    if folder is not None:
        documents = {
            "basic_operators.json": report.list_basic_operators(mapped),
            "operator_mapping.json": report.build_operator_mapping(mapped),
            "mapping_analysis.json": report.build_mapping_analysis(mapped),
        }
        files = {name: json_text(document) + "\n" for name, document in documents.items()}
        _write_files(folder, {**files, "compatibility_matrix.md": report.render_map_markdown(mapped)})
        note(f"written to {output}: the mapping files and compatibility_matrix.md", quiet=quiet)
    if as_json:
        emit(json_text(report.build_map(mapped)), None)
    elif output is None:
        emit(report.render_map(mapped, **looks()), None)


@verb(
    """
ttmem ops tests cases.jsonl -o generated
ttmem ops tests cases.jsonl -o generated --board n150 --board p150 --op silu --op add
ttmem ops tests cases.jsonl -o generated --engine none
""",
    group=command,
    line="Write pytest files, one per operator, for a card and for the mock.",
)
@click.argument("cases", metavar="CASES")
@click.option("-o", "--output", required=True, metavar="DIR", help="Write the files there.")
@click.option(
    "--op", "operators", multiple=True, metavar="NAME", help="Only this operator (aten name); several may be."
)
@options.count_option("--most", help="At most N cases per operator, the most used.")
@click.option(
    "--board",
    "boards",
    multiple=True,
    default=("n150",),
    show_default=True,
    help="Predict for this board; several may be.",
)
@options.choice_option(
    "--engine", "auto", "mock", "none", help="Who predicts: the real ttnn on a mock board, or sizes alone (none)."
)
@options.python_option()
@click.option("--json", "as_json", is_flag=True, help="What was written, as one JSON document.")
@options.quiet_option
def tests(
    cases: str,
    output: str,
    operators: tuple[str, ...],
    most: int | None,
    boards: tuple[str, ...],
    engine: str,
    python: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Write one pytest file per operator: every case in DRAM and in L1, on a card and on the mock.

    On a card results are compared with torch; on a mock board the memory alone is tested. Outcomes are predicted with
    the real ttnn on a mock board and are strict: a case that should run out of memory must do so. Run them with
    'ttmem test DIR --board n150', with pytest in a checkout of tt-metal, or with run_all_tests.sh. Exit 1 when no case
    can be tested.
    """
    from ttmem.hardware import BOARDS
    from ttmem.operators.case import read_cases
    from ttmem.operators.mock_statuses import L1_SMALL_BYTES, choose_most_used
    from ttmem.operators.pytest_files import test_files
    from ttmem.reports.ops import LeftOut, OpsTests

    chosen = choose_most_used(read_cases(cases), operators, most)
    names = tuple(dict.fromkeys(BOARDS.find(board).name for board in boards))
    folder = _check_folder(output)
    predictions = _predict(chosen, names, engine, python, quiet)
    made = test_files(chosen, predictions, l1_small_bytes=L1_SMALL_BYTES)
    if made.tests:
        _write_files(folder, made.files)
        script = folder / "run_all_tests.sh"
        script.chmod(script.stat().st_mode | 0o111)
    if as_json:
        found = OpsTests(
            folder=str(folder),
            files=sorted(made.files) if made.tests else [],
            tests=made.tests,
            predicted_on=sorted(predictions.devices),
            left_out=[LeftOut(*one) for one in made.left_out],
        )
        emit(json_text(found), None)
    else:
        total = sum(made.tests.values())
        note(f"{total} tests of {len(made.tests)} operators in {folder}", quiet=quiet)
        for reason, count in Counter(reason for _, reason in made.left_out).most_common(12):
            note(f"left out: {count} x {reason}", quiet=quiet)
    return 0 if made.tests else 1


def _predict(cases: Sequence[Case], boards: Sequence[str], engine: str, python: str | None, quiet: bool) -> Predictions:
    """Predict the outcomes; without ttnn, and with ``auto``, from sizes alone."""
    from ttmem.operators.mock_statuses import predict_on_boards, run_on_mock
    from ttmem.operators.pytest_files import Predictions

    def run(programs: Sequence[CaseProgram], board: str) -> tuple[list[str], Any]:
        with progress_bar(f"predicting on {board}", quiet=quiet, of_bytes=False) as progress:
            return run_on_mock(programs, board=board, python=python, progress=progress)

    if engine == "none":
        return Predictions()
    try:
        return predict_on_boards(cases, boards, run)
    except MissingPartError as error:
        if engine == "mock":
            raise
        note(f"ttmem: outcomes are predicted from sizes alone: {error}", quiet=quiet)
        return Predictions()


def _check_folder(place: str) -> Path:
    """Return the folder for files, which is made when they are written."""
    folder = Path(place)
    if folder.exists() and not folder.is_dir():
        raise BadInputError("is not a folder", where=place)
    return folder


def _write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write each file whole or not at all."""
    from ttmem.base.atomic_files import write_text

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(folder / name, text)
