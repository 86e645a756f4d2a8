# SPDX-License-Identifier: Apache-2.0
"""``ttmem fit``: Predict whether a model fits a board."""

from pathlib import Path
from typing import Any

import click

from ttmem.base.errors import BadInputError
from ttmem.commands import options
from ttmem.commands.output import emit, json_text, looks, note
from ttmem.commands.command_line import verb


@verb("""
ttmem fit hf:ViTConfig --size 384x384 --batch 8 --engine twin
ttmem fit model.py::load_model --inputs model.py::get_inputs --weights bfloat8_b --json
ttmem fit block.py --board n150
ttmem fit ttnn_decode.mlir --board p150
ttmem fit --list models.txt --boards all -o atlas
""")
@click.argument("target", metavar="TARGET", required=False)
@options.atlas_options
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
def command(
    target: str | None,
    list_path: Path | None,
    workers: int | None,
    scheduler: str | None,
    inputs: str | None,
    size: str | None,
    weights: str | None,
    settings: tuple[str, ...],
    l1_small: int,
    trace_region: int,
    as_json: bool,
    html_path: Path | None,
    output: Path | None,
    name: str | None,
    no_store: bool,
    quiet: bool,
    boards: tuple[str, ...],
    ranges: str | None,
    as_csv: bool,
    plot: Path | None,
    no_advice: bool,
    **asked: Any,
) -> int:
    """Predict whether TARGET fits a board, how full it gets, and what fails first. Exit 1 when it does not fit.

    TARGET is a function that returns a torch model (FILE.py::load_model), a transformers config (hf:ViTConfig), a
    compiled TTNN module (.mlir, or a log that holds one), or a ttnn script, which is run. Models are traced without
    weights, and their calls are played on the real library on a mock board or on its model in Python. The predicted run
    is stored like a measured one.

    With --list every line of FILE is a TARGET with its options; -o is then a folder, which a second call resumes.
    """
    boards = _boards(boards, asked)
    if list_path is not None:
        from ttmem.commands import fit_list

        common = {"inputs": inputs, "size": size, "weights": weights, "settings": settings, **asked}
        common |= {"l1_small": l1_small, "trace_region": trace_region}
        common.pop("maximum", None)
        return fit_list.run(
            *(list_path, command, _fields, common),
            boards=boards or (asked["board"],),
            folder=output,
            workers=workers,
            scheduler=scheduler,
            as_json=as_json,
            quiet=quiet,
        )
    if target is None:
        raise BadInputError("missing argument TARGET", hint="ttmem fit TARGET, or --list FILE")
    import ttmem
    from ttmem.commands import profile_answer
    from ttmem.profile import store
    from ttmem.readers.sources import Located

    if name is not None:
        name = store.check_name(name)
    given = {"inputs": inputs, "size": size, "weights": weights, "settings": settings, "l1_small": l1_small}
    fields = _fields({**given, "trace_region": trace_region, **asked})
    if (as_csv or plot) and not ranges:
        raise click.UsageError("--csv and --plot show a --sweep")
    if html_path and (boards or ranges):
        raise click.UsageError("--html shows one run: leave --boards and --sweep out")
    if boards and ranges:
        raise click.UsageError("--boards and --sweep cannot be asked together")
    if boards:
        return _on_boards(target, boards, fields, output, as_json=as_json)
    if ranges is not None:
        return _over_ranges(target, ranges, fields, output, plot, form=options.one_of(json=as_json, csv=as_csv))
    found = ttmem.fit(target, advice=not no_advice, **fields)
    answer = found.document
    shown = json_text(answer) if as_json else _shown(answer, output)
    if html_path:
        emit(profile_answer.render(found.profile, "html", to_file=True), html_path)
        note(f"wrote {html_path}", quiet=quiet)
    kept = None if no_store else profile_answer.keep(found.profile, Located(target, None), name=name)
    emit(shown, output)
    profile_answer.say_what_next(found.profile, kept, quiet=quiet)
    return 0 if found.fits else 1


def _boards(boards: tuple[str, ...], asked: dict[str, Any]) -> tuple[str, ...]:
    """``--board n150,p150`` is ``--boards n150,p150``, as in other verbs."""
    named = tuple(word.strip() for word in asked["board"].split(",") if word.strip())
    if len(named) < 2 and named != ("all",):
        return boards
    if boards:
        raise click.UsageError("--board and --boards both name several boards: choose one")
    asked["board"] = "n150"
    return named


def _shown(answer: Any, output: Path | None) -> str:
    from ttmem.reports.fit import terminal

    return terminal.render(answer, **looks(output))


def _fields(given: dict[str, Any]) -> dict[str, Any]:
    """Options as ``ttmem.fit`` takes them."""
    fields = dict(given)
    size = fields.pop("size")
    changed = {
        "inputs": fields["inputs"] or "",
        "size": options.image_size(size) if size else None,
        "weights": _weights(fields["weights"]),
        "settings": options.settings_of(fields["settings"]),
        "l1_small_bytes": fields.pop("l1_small"),
        "trace_region_bytes": fields.pop("trace_region"),
    }
    return {**fields, **changed}


def _over_ranges(
    target: str, ranges: str, asked: dict[str, Any], output: Path | None, plot: Path | None, *, form: str | None
) -> int:
    """One row per point; 1 when none fits."""
    from ttmem.commands.library.fit import over_ranges, request_of
    from ttmem.reports.fit import sweep

    answer = over_ranges(request_of(target, **_one_request(asked, "--sweep")), ranges)
    if plot:
        emit(sweep.svg(answer), plot)
    emit({"json": json_text, "csv": sweep.csv}.get(form or "", sweep.render)(answer), output)
    return 0 if any(one.fits for one in answer.points) else 1


def _one_request(asked: dict[str, Any], option: str) -> dict[str, Any]:
    from ttmem.engines.interpreters import chosen_python

    if asked.pop("maximum", None):
        raise click.UsageError(f"--max and {option} cannot be asked together")
    ttnn = asked.pop("ttnn")
    return {**asked, "python": chosen_python(asked["python"], ttnn)}


def _on_boards(
    target: str, boards: tuple[str, ...], asked: dict[str, Any], output: Path | None, *, as_json: bool
) -> int:
    """One answer per board; 1 when it fits none."""
    from ttmem.commands.library.fit import on_boards, request_of
    from ttmem.reports.fit import terminal
    from ttmem.reports.fit.document import FitBoards

    found = on_boards(request_of(target, **_one_request(asked, "--boards")), () if "all" in boards else boards)
    answer = FitBoards(boards=[one.document for one in found])
    emit(json_text(answer) if as_json else terminal.boards_table(answer), output)
    return 0 if any(one.fits for one in found) else 1


def _weights(text: str | None) -> dict[str, str]:
    """``bfloat8_b``, or ``mlp=bfloat4_b,attn=bfloat8_b``."""
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
