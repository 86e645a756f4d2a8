# SPDX-License-Identifier: Apache-2.0
"""Options that mean the same in every verb, each declared once, and the words that shells and agents complete."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ttmem.base.errors import BadInputError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MOST_PIXELS = 1 << 20


class RegistryName(click.ParamType):  # type: ignore[type-arg]
    """A name in a registry, completed by shells and listed to agents; with ``or_file`` also a path.

    The words are requested when somebody completes, never for a verb's help; the verb itself accepts every spelling.
    """

    def __init__(
        self, name: str, words: Callable[[], Iterable[str]], *, about: str = "", or_file: bool = False
    ) -> None:
        self.name = name
        self.or_file = or_file
        self._words = words
        self._about = about

    def words(self) -> list[str]:
        """Return all names, in the registry's order."""
        return list(self._words())

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with it; in ``n150,p1`` the word after the comma counts."""
        from click.shell_completion import CompletionItem

        before, comma, begun = ("", "", incomplete) if self.or_file else incomplete.rpartition(",")
        fitting = [word for word in self.words() if word.lower().startswith(begun.lower())]
        if self.or_file and (not fitting or os.sep in incomplete):
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(f"{before}{comma}{word}", help=self._about or None) for word in fitting]


def _list_names(registry: Iterable[Any]) -> list[str]:
    """Return the names of the entries that ttnn itself has."""
    return [value.name for value in registry if getattr(value, "in_ttnn", True)]


BOARD = RegistryName("board", lambda: _list_names(import_module("ttmem.hardware").BOARDS))
DATA_TYPE = RegistryName("type", lambda: _list_names(import_module("ttmem.hardware").DATA_TYPES))
SOURCE = RegistryName(
    "source", lambda: import_module("ttmem.profile.store").list_names(), about="stored report", or_file=True
)

_OPTION_TYPES = {
    "--board": BOARD,
    "--boards": RegistryName("board", lambda: ["all", *_list_names(import_module("ttmem.hardware").BOARDS)]),
    "--dtype": DATA_TYPE,
    "--kv-cache": DATA_TYPE,
    "--recipe": RegistryName("recipe", lambda: import_module("ttmem.prediction.language.recipe").list_recipes()),
    "--layout": RegistryName("layout", lambda: _list_names(import_module("ttmem.twin.tensor_spec").LAYOUTS)),
    "--memory": RegistryName("memory", lambda: _list_names(import_module("ttmem.hardware").MEMORIES)),
    "--release": RegistryName("version", lambda: _list_names(import_module("ttmem.hardware").RELEASES)),
    "--ttnn": RegistryName("version", lambda: _list_names(import_module("ttmem.hardware").RELEASES)),
    "--op": RegistryName("operator", lambda: import_module("ttmem.operators.catalogue_entries").catalogue().operators),
    "--baseline": SOURCE,
}
_ARGUMENT_TYPES = {
    "BOARD": BOARD,
    "SOURCE": SOURCE,
    "NAME": RegistryName("name", lambda: import_module("ttmem.profile.store").list_names()),
}


def complete_words(params: Sequence[click.Parameter]) -> None:
    """Give every parameter that has one of the names above its words, whichever verb declares it."""
    for param in params:
        if not isinstance(param.type, click.types.StringParamType):
            continue
        names, known = param.opts, _OPTION_TYPES
        if isinstance(param, click.Argument):
            names, known = [(param.metavar or "").strip("[]."), str(param.name).upper()], _ARGUMENT_TYPES
        param.type = next((known[name] for name in names if name in known), param.type)


def combine_options(*options: Callable[[Any], Any]) -> Callable[[_Function], _Function]:
    """Combine options into one decorator; the help lists them in this order."""

    def declare(function: _Function) -> _Function:
        for option in reversed(options):
            function = option(function)
        return function

    return declare


def check_output_path(_: click.Context, __: click.Parameter, value: str | None) -> Path | None:
    """Return the path of an option that names a file to write; refuse an impossible one before any work is done."""
    if value is None or value == "-":
        return None
    from ttmem.base.atomic_files import require_writable

    require_writable(Path(value))
    return Path(value)


def check_product_path(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """Do the same for a file that is the purpose of the verb, not a copy of its answer: agents may name it too."""
    return check_output_path(ctx, param, value)


def _split_words(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word.strip() for text in value for word in text.split(",") if word.strip())


# Kinds of options.
def file_option(
    *names: str, help: str, place: Callable[..., Path | None] = check_output_path
) -> Callable[[_Function], _Function]:
    """Declare a file to write."""
    return click.option(*names, callback=place, metavar="FILE", help=help)


def path_option(name: str, *, metavar: str = "FILE", help: str) -> Callable[[_Function], _Function]:
    """Declare a file to read."""
    return click.option(name, type=click.Path(path_type=Path), metavar=metavar, help=help)


def seconds_option(name: str, least: float, default: float, help: str) -> Callable[[_Function], _Function]:
    """Declare a time in seconds."""
    kind = click.FloatRange(min=least)
    return click.option(name, type=kind, default=default, show_default=True, metavar="SECONDS", help=help)


def count_option(*names: str, help: str, **more: Any) -> Callable[[_Function], _Function]:
    """Declare a count of at least one."""
    return click.option(*names, type=click.IntRange(min=1), metavar="N", help=help, **more)


def bytes_option(name: str, help: str, **more: Any) -> Callable[[_Function], _Function]:
    """Declare an amount of memory."""
    return click.option(name, type=click.IntRange(min=0), metavar="BYTES", help=help, **more)


def words_option(*names: str, metavar: str, help: str) -> Callable[[_Function], _Function]:
    """Declare a list: ``--board n150,p150`` and ``--board n150 --board p150`` are the same."""
    return click.option(*names, multiple=True, callback=_split_words, metavar=metavar, help=help)


def choice_option(name: str, *choices: str, help: str) -> Callable[[_Function], _Function]:
    """Declare a choice; the first word is the default."""
    return click.option(name, type=click.Choice(choices), default=choices[0], show_default=True, help=help)


# The format of the answer and where it goes.
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document.")
profile_form_options = combine_options(
    click.option("--json", "as_json", is_flag=True, help="One JSON document (schema ttmem.profile/1)."),
    click.option("--llm", "as_llm", is_flag=True, help="Compact Markdown for an LLM agent, at most 8,000 tokens."),
    click.option("--csv", "as_csv", is_flag=True, help="One row per memory state."),
    file_option("--html", "html_path", help="Also write the report as one offline page."),
)
no_store_option = click.option("--no-store", is_flag=True, help="Do not keep the report under ~/.ttmem (TTMEM_HOME).")
output_option = file_option("-o", "--output", help="Write there, atomically, instead of to stdout (-).")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No notes and no progress on stderr.")


def _check_list_folder(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """Accept an existing folder with ``--list``, else a file to write."""
    return Path(value) if value and ctx.params.get("list_path") else check_output_path(ctx, param, value)


list_options = combine_options(
    click.option(
        "--list",
        "list_path",
        type=click.Path(dir_okay=False, path_type=Path),
        is_eager=True,
        metavar="FILE",
        help="Many models: a line is a TARGET with its options.",
    ),
    count_option("--workers", help="With --list: models at the same time (default 1)."),
    click.option("--scheduler", metavar="ADDRESS", help="With --list: a Dask cluster, tcp://HOST:PORT."),
    file_option(
        "-o",
        "--output",
        help="Write there, atomically, not to stdout (-); a folder with --list.",
        place=_check_list_folder,
    ),
)


def folder_option(help: str) -> Callable[[_Function], _Function]:
    """Declare the required ``-o FOLDER`` of verbs that write several files."""
    place = click.Path(file_okay=False, path_type=Path)
    return click.option("-o", "--output", "folder", required=True, type=place, metavar="FOLDER", help=help)


# The source, and the part of it to read.
def source_argument(name: str) -> Callable[[_Function], _Function]:
    """Declare a SOURCE, completed from files and stored reports."""
    return click.argument(name, metavar=name.upper(), type=SOURCE)


selection_options = combine_options(
    click.option(
        "--run", "which_run", default="all", metavar="last|all|N", help="Only one run: the last one or number N."
    ),
    click.option("--rank", type=int, metavar="R", help="Only one MPI rank."),
)
jobs_option = count_option(
    "-j", "--jobs", help="Processes that read a large log (default: 1; up to 4 from 256 MiB on)."
)


# A memory budget.
peak_limit_options = combine_options(
    click.option("--max-dram", metavar="LIMIT", help="Highest DRAM peak: 80%, 0.8, or bytes per bank such as 700MiB."),
    click.option("--max-l1", metavar="LIMIT", help="Highest L1 peak, in the same forms."),
)
baseline_options = combine_options(
    click.option("--baseline", metavar="SOURCE", help="Compare the peaks with this source."),
    click.option("--max-growth", metavar="LIMIT", help="How much a peak may exceed the baseline's (default 2%)."),
)


# The device: the board, how it is opened, and the interpreter that has ttnn.
def board_option(help: str) -> Callable[[_Function], _Function]:
    """Declare ``--board``; the default is n150."""
    return click.option("--board", default="n150", show_default=True, metavar="BOARD", help=help)


def python_option(what: str = "ttnn", *, variable: str = "TTMEM_TTNN_PYTHON") -> Callable[[_Function], _Function]:
    """Declare ``--python PATH``."""
    return click.option("--python", metavar="PATH", help=f"An interpreter that has {what} (also: {variable}).")


ttnn_option = click.option(
    "--ttnn", metavar="VERSION", help="The ttnn release to run ('ttmem device install --ttnn VERSION' makes it)."
)
mock_or_card_options = combine_options(
    board_option("The mock board; see 'ttmem boards'."),
    click.option("--card", is_flag=True, help="Run on the card in this machine instead of a mock."),
)
no_programs_option = click.option(
    "--no-programs", is_flag=True, help="Do not measure what programs need in L1 (faster)."
)
values_option = click.option(
    "--values", is_flag=True, help="Make comparisons of values too, although a mock board computes none."
)
release_option = click.option(
    "--release", metavar="VERSION", help="Bank sizes of this ttnn release (default: the newest)."
)
opening_options = combine_options(
    release_option,
    click.option(
        "--like",
        metavar="LOG|MESSAGE",
        help="Bank sizes as in this log, capture or out-of-memory message: builds differ.",
    ),
    bytes_option("--l1-small", "l1_small_size per bank (default 0)."),
    bytes_option("--trace-region", "trace_region_size (default 0)."),
    bytes_option("--worker-l1", "worker_l1_size (default: the release's)."),
    click.option(
        "--dispatch", type=click.Choice(["row", "col", "eth"]), help="Where dispatch runs (default: the board's)."
    ),
)


# Cases on engines, and how the boards are opened for them.
engine_option = choice_option(
    "--engine", "twin", "mock", "card", help="The model in Python, the real library without a card, or with one."
)
places_options = combine_options(
    words_option("--board", "boards", metavar="BOARD,..", help="Boards (default n150)."),
    words_option("--memory", "memories", metavar="MEMORY,..", help="DRAM, L1 (default both)."),
    words_option("--layout", "layouts", metavar="LAYOUT,..", help="tile, row_major (default tile)."),
)
case_options = combine_options(
    bytes_option(
        "--l1-small", "L1_SMALL region per core; convolutions and pools need one.", default=32768, show_default=True
    ),
    bytes_option("--trace-region", "TRACE region in DRAM.", default=0, show_default=True),
    click.option(
        "--dtype",
        type=RegistryName("type", lambda: [*DATA_TYPE.words(), "model"]),
        default="bfloat16",
        show_default=True,
        metavar="TYPE",
        help="What the models' floats are on the device; 'model': as recorded.",
    ),
    python_option(),
)


def refuse_overwriting(source: str | Path, *outputs: Path | None) -> None:
    """Refuse outputs that would replace the source (a log may have taken hours) or each other."""
    places = [Path(os.path.realpath(place)) for place in (source, *outputs) if place is not None and str(place) != "-"]
    doubled = next((place for place in places if places.count(place) > 1), None)
    if doubled and (doubled.is_file() or not doubled.exists()):  # /dev/null and pipes may be named twice
        raise click.UsageError(f"'{doubled}' would be overwritten by another output, or is the source itself")


def choose_one(**flags: bool) -> str | None:
    """Return the one of several exclusive flags that was given."""
    given = [name for name, wanted in flags.items() if wanted]
    if len(given) > 1:
        raise click.UsageError(f"choose one of {' and '.join('--' + name for name in given)}")
    return given[0] if given else None


# Models, before they are traced.
inputs_option = click.option(
    "--inputs", metavar="FILE::FN", help="A function that gives the model's inputs (tensor, tuple or dict)."
)
settings_option = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the config or of load_model."
)
batch_option = click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Inputs at once.")
attention_option = choice_option(
    "--attention", "fused", "eager", help="Attention as one operator, or as products and a softmax."
)


def parse_image_size(text: str) -> tuple[int, int]:
    """Parse ``2176x3840``, or one number for both sides."""
    match = re.fullmatch(r"(\d+)(?:[xX](\d+))?", text.strip())
    height, width = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not (0 < height < _MOST_PIXELS and 0 < width < _MOST_PIXELS):
        raise BadInputError(f"'{text}' is no image size", hint="height x width in pixels, as in --size 2176x3840")
    return height, width


def _parse_setting(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE; the value is JSON where possible, else text (``depths=[2,2,6,2]``, ``hidden_act=relu``)."""
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise BadInputError(f"'{text}' is no setting", hint="name and value, as in --set num_hidden_layers=2")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, {"True": True, "False": False, "None": None}.get(value, value)


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Parse all ``--set`` options."""
    return dict(map(_parse_setting, texts))
