# SPDX-License-Identifier: Apache-2.0
"""Run a command line to its exit code: every error ends here, as one line of what, where and what to do next."""

import contextlib
import gc
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ttmem.base.errors import TtmemError
from ttmem.base.text_safety import one_line

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

INTERRUPTED = 130
BROKEN_PIPE = 141
"""128 + SIGPIPE, as a shell reports a program whose reader went away: the answer was not delivered, so not 0."""


@dataclass(slots=True)
class Settings:
    """The settings of a whole invocation, whichever verb it is."""

    debug: bool = False
    failure_code: int | None = None
    """Replaces the error's own exit code where the status of a child process is passed through (125)."""


class WithExamples(click.Command):
    """A command whose epilog holds examples, shown as they would be typed."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{"context_settings": CONTEXT, **settings})

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, never re-wrapped."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.strip().splitlines():
                    formatter.write(f"  {line}\n")


class GroupWithExamples(WithExamples, click.Group):
    """A verb that has verbs of its own, listed in the order in which they are declared."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, subcommand_metavar="VERB ...", **settings)

    @property
    def lines(self) -> dict[str, str]:
        """Return each verb with its line of help."""
        return {name: command.get_short_help_str(100) for name, command in self.commands.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs."""
        return list(self.lines)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of verbs."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(self.lines.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or suggest one."""
        if args and args[0] not in self.lines and not args[0].startswith("-"):
            raise click.UsageError(f"no verb '{args[0]}'{self.guess_verb(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def guess_verb(self, word: str) -> str:
        """Return a hint for a word that is no verb; empty when no verb is spelled like it."""
        import difflib

        close = difflib.get_close_matches(word, self.lines, n=1)
        return f"; did you mean '{close[0]}'?" if close else ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Print the help of a group that is called without a verb."""
        if not args and not self.invoke_without_command:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)


def verb(
    examples: str,
    *,
    group: click.Group | None = None,
    line: str | None = None,
    cls: type[WithExamples] = WithExamples,
    **settings: Any,
) -> Callable[[Callable[..., Any]], Any]:
    """Declare a verb: its function returns the exit code (None is 0), its docstring is the help.

    It has the name of its file, or in a ``group`` that of its function; ``line`` is its help in the group's table.
    """

    from ttmem.commands.options import complete_words

    def declare(function: Callable[..., Any]) -> WithExamples:
        name = (function.__name__ if group else function.__module__.rpartition(".")[2]).strip("_").replace("_", "-")
        command = click.command(name, cls=cls, epilog=examples, short_help=line, **settings)(function)
        complete_words(command.params)
        command.params.append(debug_option())
        if group:
            group.add_command(command)
        return command

    return declare


def debug_option() -> click.Option:
    """Declare ``--debug``."""
    return click.Option(
        ["--debug"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set_debug,
        help="Show the traceback of an error (also: TTMEM_DEBUG=1).",
    )


def _set_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and (settings := ctx.find_object(Settings)):
        settings.debug = True


def run_to_exit_code(command: click.Command, argv: Sequence[str] | None, *, prog_name: str, settings: Settings) -> int:
    """Parse, invoke, flush; turn whatever is raised into an exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    settings.debug = os.environ.get("TTMEM_DEBUG", "") not in ("", "0")
    _open_closed_streams()
    _escape_unknown_letters()
    gc.set_threshold(100_000, 50, 50)  # a verb makes many objects and few cycles: look for them seldom
    try:
        if instruction := os.environ.get(completion_variable(prog_name)):
            from click.shell_completion import shell_complete

            return shell_complete(command, {}, prog_name, completion_variable(prog_name), instruction)
        code = _invoke(command, arguments, prog_name, settings)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        _say(f"\n{prog_name}: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return BROKEN_PIPE
    except Exception as error:
        code, text = describe(error, prog_name)
        if settings.debug:
            _say(traceback.format_exc().rstrip("\n"))
        _say(text)
        try:
            sys.stdout.flush()
        except (OSError, ValueError):
            _abandon_stdout()
        return settings.failure_code or code


def _invoke(command: click.Command, arguments: list[str], prog_name: str, settings: Settings) -> int:
    try:
        with command.make_context(prog_name, arguments, obj=settings) as ctx:
            result = command.invoke(ctx)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    return result if isinstance(result, int) else 0


def describe(error: Exception, prog_name: str) -> tuple[int, str]:
    """Return the exit code and the text of an error."""
    if isinstance(error, TtmemError):
        message, hint = one_line(str(error)), one_line(error.hint)
    elif isinstance(error, click.ClickException):
        ctx = getattr(error, "ctx", None)
        message, hint = error.format_message(), f"see '{ctx.command_path} --help'" if ctx else ""
    elif isinstance(error, OSError) and error.strerror:
        message, hint = ": ".join(filter(None, (str(error.filename or ""), error.strerror))), ""
    else:
        message = "internal error: " + f"{type(error).__name__}: {error}".splitlines()[0]
        hint = "please report it with the command and its input; --debug shows the traceback"
    code = error.exit_code if isinstance(error, TtmemError) else 2
    return code, f"{prog_name}: error: {message}" + (f"\n  hint: {hint}" if hint else "")


def _say(text: str) -> None:
    from ttmem.commands.output import say

    with contextlib.suppress(OSError, ValueError):
        say(text)


def _open_closed_streams() -> None:
    """Open standard streams that were closed (``>&-``): Python has none then, and a file would get their numbers.

    Output to a closed stderr is lost; output to a closed stdout is an error.
    """
    for number, name, mode, flags in ((0, "stdin", "r", 0), (1, "stdout", "w", 0), (2, "stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            place = os.open(os.devnull, os.O_RDONLY | flags)
            if place != number:
                os.dup2(place, number)
                os.close(place)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _escape_unknown_letters() -> None:
    """Escape letters that the terminal cannot show, such as those of a weight's name, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _abandon_stdout() -> None:
    """Redirect stdout to nothing, so that the interpreter's own last flush does not fail again and change the code."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def completion_variable(prog_name: str) -> str:
    """Return the variable through which the shell asks; the script of `ttmem completion` sets it."""
    return f"_{prog_name.replace('-', '_').upper()}_COMPLETE"
