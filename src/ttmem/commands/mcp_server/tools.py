# SPDX-License-Identifier: Apache-2.0
"""Tools from verbs: every command that can answer in JSON is one; its options and arguments are the parameters.

Nothing is declared twice: names, descriptions, choices, ranges and defaults are those of the command line. What belongs
to a terminal alone (colours, files next to the answer, waiting for Ctrl-C) is left out by the caller.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click


class VerbFailedError(Exception):
    """The verb refused; the text is its error message, with its hint."""


LeaveOut = Callable[[str, click.Parameter | None], bool]
"""Return whether agents do without a verb (its path, None) or without one of its parameters."""

FORMATS = {"--json": "json", "--llm": "markdown", "--markdown": "markdown", "--csv": "csv"}
"""Flags that choose the form of the answer, and the value of ``format`` for each."""
ALWAYS = ("--quiet", "--once")
"""Flags that are passed whenever a verb has them: no notes, and one answer instead of a stream."""

_JSON_FIRST = (("diff",),)
"""Verbs that answered in JSON alone at first: callers that ask for no format rely on it."""
_MOST_WORDS = 40
"""A longer list of possible words would cost an agent more to read than a refusal that suggests the right one."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a tool."""

    name: str
    description: str
    type: type = str
    option: str = ""
    """As typed; empty for an argument."""
    off_option: str = ""
    """The option that turns a switch off, where there is one."""
    many: bool = False
    words: tuple[str, ...] = ()
    """The possible words, where that is a short list."""
    is_strict: bool = False
    """Whether no other spelling is accepted."""
    least: float | None = None
    most: float | None = None
    required: bool = False
    default: Any = None
    can_be_pasted: bool = False
    """Whether its content may be given instead of its path: several lines of text."""
    takes_rows: bool = False
    """Whether its content may also be a list of objects, one per line of the file."""


TEXT = Parameter("text", "The text itself, instead of a place where it can be read.")
"""For verbs whose source may be left out, because they read stdin then."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A verb as an agent calls it."""

    path: tuple[str, ...]
    description: str
    parameters: tuple[Parameter, ...]
    formats: Mapping[str, str]
    """``format`` -> the flag that asks for it; the first is the default."""
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """``ttmem cb simulate`` is the tool ``cb_simulate``."""
        return "_".join(self.path).replace("-", "_")

    @property
    def line(self) -> str:
        """The first sentence of its description."""
        return self.description.partition("\n")[0]


def list_tools(program: click.Group, leave_out: LeaveOut) -> Iterator[Tool]:
    """Yield the tools of all verbs, groups included, in the order of the help."""
    for path, command in _walk(program, ()):
        options = {option: param for param in command.params for option in param.opts}
        if "--json" in options and not leave_out(" ".join(path), None):
            yield _build_tool(path, command, options, leave_out)


def build_command_line(tool: Tool, format: str, arguments: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return the arguments of the verb, and its stdin.

    A value can never become an option: options are one word with their value, and all arguments come after ``--``.
    """
    options: list[str] = [*tool.path, *tool.flags, tool.formats[format]]
    alone: list[str] = []
    pasted = str(arguments.get(TEXT.name) or "")
    missing = ""
    for parameter in tool.parameters:
        value = arguments.get(parameter.name)
        if parameter is TEXT:
            continue
        if parameter.option:
            options += _format_option(parameter, value)
            continue
        if parameter.can_be_pasted and is_content(value):
            value, pasted = "-", value if isinstance(value, str) else _format_rows(value)
        elif parameter.can_be_pasted and value is None and pasted:
            value = "-"
        if value is None or value == []:
            missing = missing or parameter.name
        elif missing:
            raise VerbFailedError(f"'{parameter.name}' needs '{missing}' too")
        else:
            alone += [str(one) for one in value] if parameter.many else [str(value)]
    return [*options, *(["--", *alone] if alone else [])], pasted


def _format_rows(rows: list[Any]) -> str:
    try:
        return "".join(f"{json.dumps(row)}\n" for row in rows)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists in lists
        raise VerbFailedError(f"these rows cannot be passed on: {error}") from None


def is_content(value: object) -> bool:
    """Return whether a value is the content of a file, and not its name."""
    return isinstance(value, list) or (isinstance(value, str) and "\n" in value)


def _format_option(parameter: Parameter, value: Any) -> list[str]:
    if value is None or value == parameter.default:
        return []
    if parameter.type is bool:
        return [parameter.option] if value else [parameter.off_option]
    return [f"{parameter.option}={one}" for one in (value if parameter.many else (value,))]


def _walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if path:
        yield path, command
    if isinstance(command, click.Group):
        with click.Context(command, **command.context_settings) as ctx:
            for name in command.list_commands(ctx):
                if (child := command.get_command(ctx, name)) is not None:
                    yield from _walk(child, (*path, name))


def _build_tool(path: tuple[str, ...], command: click.Command, options: Mapping[str, Any], leave_out: LeaveOut) -> Tool:
    formats = {form: flag for flag, form in FORMATS.items() if flag in options}
    if "--llm" in options and path not in _JSON_FIRST:
        formats = {"markdown": formats.pop("markdown"), **formats}
    parameters = [
        _build_parameter(param, command)
        for param in command.params
        if not {*param.opts} & {*FORMATS, *ALWAYS} and (param.required or not leave_out(" ".join(path), param))
    ]
    description = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    if any(parameter.can_be_pasted and not parameter.required for parameter in parameters):
        parameters.append(TEXT)
    return Tool(path, description, tuple(parameters), formats, tuple(flag for flag in ALWAYS if flag in options))


def _build_parameter(param: click.Parameter, command: click.Command) -> Parameter:
    about = param.to_info_dict()
    is_argument = isinstance(param, click.Argument)
    kind = param.type
    words = getattr(kind, "choices", None) or (kind.words() if hasattr(kind, "words") else ())
    can_be_file = getattr(kind, "or_file", False)
    takes_rows = is_argument and str(param.metavar).endswith(".jsonl")
    long_name = max(param.opts, key=len)
    many = about["multiple"] or about["nargs"] == -1
    default = about["default"]
    if isinstance(default, tuple):
        default = list(default)
    return Parameter(
        name=long_name.lstrip("-").replace("-", "_"),
        description=_describe_argument(param, command) if is_argument else str(about["help"] or ""),
        type={"Int": int, "IntRange": int, "Float": float, "FloatRange": float, "Bool": bool}.get(
            about["type"]["param_type"], str
        ),
        option="" if is_argument else long_name,
        off_option=next(iter(about["secondary_opts"]), ""),
        many=many,
        words=tuple(words) if len(words) <= _MOST_WORDS and not can_be_file else (),
        is_strict=isinstance(kind, click.Choice),
        least=about["type"].get("min"),
        most=about["type"].get("max"),
        required=param.required,
        default=default if not (default is False and about["secondary_opts"]) else None,
        can_be_pasted=is_argument and not many and (can_be_file or takes_rows),
        takes_rows=takes_rows,
    )


def _describe_argument(param: click.Parameter, command: click.Command) -> str:
    """Return what the verb's help says of an argument, which has no help of its own, else how it is typed."""
    word = re.sub(r"[^\w.]", "", (param.metavar or str(param.name).upper()).partition(".")[0])
    sentences: Sequence[str] = re.split(r"(?<=[.:])\s+(?=[A-Z])", " ".join((command.help or "").split()))
    found = [text for text in sentences if word and re.search(rf"\b{word}\b", text)]
    found.sort(key=lambda text: not text.startswith(f"{word} "))
    if found:
        return found[0]
    if getattr(param.type, "or_file", False):
        return "A path, or the name of a stored report."
    if str(param.metavar).endswith(".jsonl"):
        return "A path, or the rows themselves as a list."
    with click.Context(command, **command.context_settings) as ctx:
        return f"As in: {command.name} {' '.join(command.collect_usage_pieces(ctx))}"
