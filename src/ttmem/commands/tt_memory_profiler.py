# SPDX-License-Identifier: Apache-2.0
"""``tt-memory-profiler``: run a model with memory logging on, keep its log, report what filled the memory."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ttmem.base.errors import BadInputError, TtmemError
from ttmem.commands.command_line import CONTEXT, Settings, WithExamples, describe, run_to_exit_code, verb
from ttmem.commands.options import choose_one, file_option, quiet_option
from ttmem.commands.output import emit, note, warn
from ttmem.commands.profile_answer import (
    print_next_command,
    read_with_progress,
    render_profile,
    store_profile,
    try_store,
)
from ttmem.commands.user_program import OWN_FAILURE, run_and_capture

if TYPE_CHECKING:
    from ttmem.profile.model import Profile
    from ttmem.profile.store import StoredReport

LOGGING = {
    "TTMLIR_RUNTIME_LOGGER_LEVEL": "DEBUG",  # operation lines
    "TT_RUNTIME_MEMORY_LOG_LEVEL": "operation",  # a memory state before every operation
    "TTXLA_LOGGER_LEVEL": "DEBUG",  # module dumps, from which the weights' names come
}
_MORE_THAN_ENOUGH = {"trace", "verbose", "any", "all"}
_RUNTIME_MARKS = (b"Executing operation: ", b"MemoryView{")
_LOG_ELSEWHERE = "TTMLIR_RUNTIME_LOGGER_FILE"

_EXAMPLES = """
tt-memory-profiler model.py --batch 4
tt-memory-profiler --log model.py
tt-memory-profiler --log -- pytest -sv tests/test_model.py
tt-memory-profiler --analyze logs/model_20260821_101500/model_profile.log
tt-memory-profiler --visualize model
"""


class _ProfilerCommand(WithExamples):
    """A command whose words after the target belong to the target; ``--`` before it means a command, not a script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember whether the target comes after a ``--``, which click itself forgets."""
        given = list(args)
        rest = super().parse_args(ctx, args)
        target: tuple[str, ...] = ctx.params.get("target", ())
        before = given[: len(given) - len(target)]
        ctx.params["is_command"] = bool(target) and bool(before) and before[-1] == "--"
        return rest


@verb(_EXAMPLES, cls=_ProfilerCommand, context_settings={**CONTEXT, "allow_interspersed_args": False})
@click.option("--log", "log_only", is_flag=True, help="Only run TARGET and keep its log.")
@click.option("--analyze", is_flag=True, help="Only read the log TARGET, store its report and print the summary.")
@click.option("--visualize", is_flag=True, help="Only write the HTML report of TARGET (a log or a stored name).")
@click.option("--name", metavar="NAME", help="Call the model NAME (default: after the script).")
@click.option("--python", default=sys.executable, metavar="PATH", help="Interpreter for a script (default: this one).")
@file_option("-o", "--output", help="With --visualize: where the page goes.")
@click.option("--open", "open_page", is_flag=True, help="Open the HTML report in a browser.")
@quiet_option
@click.argument("target", nargs=-1, required=True, type=click.UNPROCESSED, metavar="TARGET [ARGS]...")
@click.pass_context
def command(
    ctx: click.Context,
    log_only: bool,
    analyze: bool,
    visualize: bool,
    name: str | None,
    python: str,
    output: Path | None,
    open_page: bool,
    quiet: bool,
    target: tuple[str, ...],
    is_command: bool,
) -> int:
    """Run TARGET with memory logging on, then report what filled the memory.

    TARGET is a Python script with its arguments, or any command after --. Its output is kept in
    ./logs/<model>_<timestamp>/<model>_profile.log, its exit status becomes ours (128 + signal when it was killed),
    125 means that the profiler itself failed. With --analyze or --visualize nothing is run.
    """
    from ttmem.profile import store

    mode = choose_one(log=log_only, analyze=analyze, visualize=visualize)
    if name is not None:
        name = store.check_name(name)
    if mode in ("analyze", "visualize"):
        ctx.ensure_object(Settings).failure_code = None  # no child, so the ordinary codes say more
        if len(target) != 1:
            raise click.UsageError(f"--{mode} takes one log or stored report", ctx)
        profile, kept = _read_and_keep(target[0], name=name, summary=mode == "analyze", quiet=quiet)
        if mode == "visualize":
            _print_page(profile, kept, output=output, open_page=open_page)
        return 0
    if output is not None:
        raise click.UsageError("-o goes with --visualize; the log has its own place under ./logs", ctx)
    words = list(target) if is_command else _build_command(target, python)
    model = name or _choose_model_name(target, is_command=is_command)
    status, log_path = _run_and_log(words, model, show_on_stdout=mode == "log", quiet=quiet)
    if mode == "log":
        if not quiet:
            _warn_if_empty(log_path)
        note(f"next: tt-memory-profiler --analyze {log_path}", quiet=quiet)
        return status
    try:
        profile, kept = _read_and_keep(str(log_path), name=name, summary=True, quiet=quiet)
        _print_page(profile, kept, output=None, open_page=open_page)
    except (OSError, TtmemError) as error:
        # The run is the user's, and its status too; only what looks like success is not one without a profile.
        note(describe(error, "tt-memory-profiler")[1])
        return status or OWN_FAILURE
    return status


def _warn_if_empty(log_path: Path) -> None:
    """Warn at once of a log that holds nothing to analyse."""
    from ttmem.readers.runtime_log.reader import NO_RUNTIME_LINES

    with log_path.open("rb") as log:
        if not any(mark in line for line in log for mark in _RUNTIME_MARKS):
            warn(f"no operation and no memory state in {log_path}: {NO_RUNTIME_LINES}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the profiler and return its exit code."""
    return run_to_exit_code(command, argv, prog_name="tt-memory-profiler", settings=Settings(failure_code=OWN_FAILURE))


def build_child_environment(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the child's variables and notes on them: the user's own settings win, except for another log file."""
    child = {**LOGGING, "PYTHONUNBUFFERED": "1", **environment}
    notes = [
        f"{variable}={environment[variable]} is kept as you set it ({wanted} is what a full profile needs)"
        for variable, wanted in LOGGING.items()
        if environment.get(variable, wanted).lower() not in {wanted.lower(), *_MORE_THAN_ENOUGH}
    ]
    if elsewhere := child.pop(_LOG_ELSEWHERE, ""):
        notes.append(f"{_LOG_ELSEWHERE}={elsewhere} is unset for this run, so that the runtime's lines reach the log")
    return child, notes


def _build_command(target: Sequence[str], python: str) -> list[str]:
    script = Path(target[0])
    if not script.is_file():
        hint = f"to run a command, put -- before it: tt-memory-profiler --log -- {' '.join(target)}"
        raise BadInputError(f"no such script '{script}'", hint=hint)
    return [python, *target]


def _choose_model_name(target: Sequence[str], *, is_command: bool) -> str:
    """Name the model after the script, also when it is an argument of pytest or torchrun."""
    from ttmem.profile import store

    scripts = (word.partition("::")[0] for word in target if word.partition("::")[0].endswith(".py"))
    chosen = next(scripts, target[0]) if is_command else target[0]
    return store.make_usable_name(Path(chosen).name.removesuffix(".py"))


def _run_and_log(words: Sequence[str], model: str, *, show_on_stdout: bool, quiet: bool) -> tuple[int, Path]:
    """Run the child; its output goes to stdout only where no other answer does."""
    environment, notes = build_child_environment(os.environ)
    for text in notes:
        note(f"tt-memory-profiler: {text}", quiet=quiet)
    log_path = _new_log_folder(model) / f"{model}_profile.log"
    note(f"logging to {log_path}", quiet=quiet)
    stream = None if quiet else (sys.stdout if show_on_stdout else sys.stderr)
    status, problem = run_and_capture(
        words, log_path=log_path, environment=environment, echo=stream.buffer if stream else None
    )
    if problem:
        warn(f"{log_path} is incomplete: {problem}")
        status = status or OWN_FAILURE
    note(f"the child ended with status {status}; its log is {log_path}", quiet=quiet)
    return status, log_path


def _new_log_folder(model: str) -> Path:
    """Create a new folder: two runs within one second get two folders."""
    stem = f"{model}_{time.strftime('%Y%m%d_%H%M%S')}"
    for number in itertools.count(1):
        folder = Path("logs") / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if not folder.is_dir():
                raise
        else:
            return folder
    raise AssertionError("numbers do not end")


def _read_and_keep(source: str, *, name: str | None, summary: bool, quiet: bool) -> tuple[Profile, StoredReport | None]:
    from ttmem.readers.sources import locate

    located = locate(source)
    profile = read_with_progress(source, name=name, quiet=quiet)
    kept = located.stored
    if kept is None or name is not None:
        kept = try_store(lambda: store_profile(profile, origin=located.origin, name=name))
    if summary:
        emit(render_profile(profile, None), None)
        print_next_command(profile, kept, quiet=quiet)
    return profile, kept


def _print_page(profile: Profile, kept: StoredReport | None, *, output: Path | None, open_page: bool) -> None:
    """Print the path of the page; write it when it goes elsewhere or the store could not take it."""
    page = kept.html_path if kept and output is None else output or Path(f"{profile.name}_report.html")
    if not kept or output is not None:
        if output is None and page.exists():
            raise BadInputError("is there already", where=str(page), hint="say where the page goes with -o FILE")
        emit(render_profile(profile, "html"), page)
    emit(str(page), None)
    if open_page:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
