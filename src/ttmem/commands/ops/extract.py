# SPDX-License-Identifier: Apache-2.0
"""``ttmem ops extract``: Extract operators, shapes, types and scalars of models, one case per line."""

import os
import sys
from pathlib import Path

import click

from ttmem.commands import options
from ttmem.commands._progress import progress_bar
from ttmem.commands.output import color_wanted, columns, emit, json_text, note
from ttmem.commands.command_line import verb


@verb("""
ttmem ops extract hf:ViTConfig -o cases.jsonl
ttmem ops extract hf:SwinConfig hf:DetrConfig --size 224x224 --size 2176x3840 -o cases.jsonl
ttmem ops extract model.py::load_model --inputs model.py::get_inputs -o cases.jsonl
ttmem ops extract hf:LlamaConfig --set num_hidden_layers=2 --sequence 128 --attention eager
ttmem ops extract all_cnn_models.csv ttnn_operations_master.json -o cases.jsonl
""")
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
    "-o", "--output", place=options.product_place, help="Write the cases there, atomically, instead of to stdout (-)."
)
@options.quiet_option
def command(
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
    from ttmem.operators.case_files import cases_text
    from ttmem.operators.extraction import extract, is_model
    from ttmem.operators.tracer.job import TraceJob
    from ttmem.reports.ops import extract as ops_extract

    if as_json and output is None:
        raise click.UsageError("--json describes the cases; name a file for them with -o")
    for target in targets:
        if not is_model(target):
            options.refuse_overwriting(target, output)
    given = options.settings_of(settings)
    trace = TraceJob("", inputs or "", None, given, batch, sequence, eager_attention=attention == "eager")
    with progress_bar("extracting", quiet=quiet, of_bytes=False) as progress:
        found = extract(
            targets,
            trace,
            sizes=tuple(dict.fromkeys(options.image_size(text) for text in sizes)),
            python=python,
            workers=jobs or os.cpu_count() or 1,
            progress=progress,
        )
    if found.cases:
        emit(cases_text(found.cases), output)
    if as_json:
        emit(json_text(ops_extract.document(found, attention=attention)), None)
    else:
        note(ops_extract.render(found, width=columns(), color=color_wanted(sys.stderr)).rstrip("\n"), quiet=quiet)
    for source in (one for one in found.sources if one.refusal):
        lacks_package = source.refusal.startswith(("ImportError", "ModuleNotFoundError"))
        how = "cannot be built here" if lacks_package else f"refuses {source.size or 'its own size'}"
        note(f"ttmem: {source.model} {how}: {source.refusal}", quiet=quiet)
    return 0 if found.cases else 1
