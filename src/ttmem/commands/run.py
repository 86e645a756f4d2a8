# SPDX-License-Identifier: Apache-2.0
"""``ttmem run``: Run a ttnn script on a mock board and report its memory use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands import options
from ttmem.commands.command_line import verb
from ttmem.commands.output import emit, note, stderr_descriptor, warn
from ttmem.commands.profile_answer import print_answer, print_next_command, store_profile, try_store
from ttmem.commands.user_program import PASSING_CONTEXT, UserProgramCommand, forward_signals_options

if TYPE_CHECKING:
    from ttmem.engines.run_script import ScriptRun, Supervision
    from ttmem.profile.store import StoredReport


def run(
    script: str | Path,
    arguments: Sequence[str] = (),
    *,
    board: str = "n150",
    card: bool = False,
    name: str | None = None,
    python: str | None = None,
    ttnn: str | None = None,
    l1_small: int | None = None,
    trace_region: int | None = None,
    timeout: float | None = None,
    programs: bool = True,
    values: bool = False,
    output: int | None = None,
    own_session: bool = False,
    supervise: Supervision = lambda _: nullcontext(),
) -> ScriptRun:
    """Run the user's own, unedited script in a process of its own and capture its memory.

    The result holds its ``profile``, whose failure is the script's, and its exit ``status``. ``python`` is an
    interpreter that has ttnn, ``ttnn`` a release that ``ttmem device install`` made, ``l1_small`` and ``trace_region``
    are bytes, ``timeout`` seconds; ``programs=False`` saves the time to measure what programs need in L1. A mock
    computes no values: once the script has read some, comparisons that ttmem knows succeed and are counted
    (``skipped_comparisons``), unless ``values`` keeps them. ``output`` is a descriptor for what the script prints,
    ``own_session`` and ``supervise`` are for callers that forward signals.
    """
    from ttmem.engines.interpreters import choose_python
    from ttmem.engines.run_script import RunSettings, run_script

    settings = RunSettings(
        board=board,
        card=card,
        python=choose_python(python, ttnn),
        l1_small_bytes=l1_small,
        trace_region_bytes=trace_region,
        timeout_seconds=timeout,
        measure_programs=programs,
        keep_values=values,
    )
    return run_script(
        script, arguments, settings=settings, name=name, output=output, own_session=own_session, supervise=supervise
    )


_SHORT = {"-o": "--output", "-q": "--quiet", "-h": "--help"}


class _RunCommand(UserProgramCommand):
    """Accepts the short options that every verb has, as words of their own only."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Spell them out before anything is parsed; everything after ``--`` goes to the script."""
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*(_SHORT.get(word, word) for word in args[:end]), *args[end:]])


@verb(
    """
ttmem run block.py
ttmem run block.py --board p150 --json
ttmem run block.py --batch 4 --board n300 --html report.html
ttmem run block.py --board n150 -- --json
""",
    cls=_RunCommand,
    context_settings=PASSING_CONTEXT,
)
@click.argument("script", type=click.Path(), metavar="SCRIPT")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
@options.mock_or_card_options
@options.profile_form_options
@options.file_option("--output", help="Write the answer there, atomically, instead of to stdout (also: -o).")
@click.option("--name", metavar="NAME", help="Call the report NAME (default: after the script).")
@options.no_store_option
@options.python_option()
@options.ttnn_option
@click.option("--timeout", type=float, metavar="SECONDS", help="Stop the script and its child processes after SECONDS.")
@options.bytes_option("--l1-small", "Open devices with this L1_SMALL region.")
@options.bytes_option("--trace-region", "Open devices with this trace region.")
@options.values_option
@options.no_programs_option
@click.option("--quiet", is_flag=True, help="No notes on stderr (also: -q).")
def command(
    script: str,
    arguments: tuple[str, ...],
    as_json: bool,
    as_llm: bool,
    as_csv: bool,
    html_path: Path | None,
    output: Path | None,
    name: str | None,
    no_store: bool,
    no_programs: bool,
    quiet: bool,
    **settings: Any,
) -> int:
    """Run SCRIPT, your own unedited ttnn program, on a mock board and report its memory use.

    Nothing is computed: allocator, validation, programs and errors are the real library's, values are zeros. The
    script's output goes to stderr. Its exit status becomes the status of ttmem (128 + signal when it was killed); 125
    means that ttmem itself failed: wrong usage, no such script, no ttnn. Processes that the script leaves behind end
    with the run. ttmem's options may appear anywhere; everything after -- goes to the script.
    """
    from ttmem.analysis.failure import run_end
    from ttmem.engines.workspace import find_cards
    from ttmem.profile import store

    form = options.choose_one(json=as_json, llm=as_llm, csv=as_csv)
    if name is not None:
        name = store.check_name(name)
    if settings["card"]:
        note("running on the card", quiet=quiet)
    elif find_cards():
        note(f"running on a mock {settings['board']}; --card uses the card of this machine", quiet=quiet)
    printed = stderr_descriptor()
    done = run(
        script, arguments, name=name, programs=not no_programs, output=printed, **settings, **forward_signals_options()
    )

    def keep() -> StoredReport | None:
        if no_store or done.is_empty:
            return None
        return try_store(lambda: store_profile(done.profile, origin=os.path.realpath(script), name=name))

    kept = None
    if done.is_empty and form is None and not (html_path or output):
        end = run_end(done.profile)
        how = f"; {end.sentence}" if end and not done.timed_out else ""
        emit(f"{done.profile.name}: no ttnn operation was recorded{how}", None)
    else:
        kept = print_answer(done.profile, form, html_path=html_path, output=output, quiet=quiet, store=keep)
    _print_notes(done, script, settings["timeout"], quiet=quiet)
    if done.is_empty and not no_store:
        note("nothing was recorded, so nothing was stored", quiet=quiet)
    if done.remedy:
        note(f"next: {done.remedy}", quiet=quiet)
    else:
        print_next_command(done.profile, kept, quiet=quiet)
    return done.status


def _print_notes(done: ScriptRun, script: str, timeout: float | None, *, quiet: bool) -> None:
    """Print how the script ended, and which comparisons were skipped."""
    from ttmem.base.formatting import pluralize

    facts = done.profile.facts
    if skipped := facts.get("skipped_comparisons"):
        ended = facts.get("ended") or {}
        last = ", the last an assertion of the script, not judged" if ended.get("not_judged") else ""
        skipped = f"{pluralize(skipped, 'comparison')} skipped{last}"
        note(f"a mock computes no values: {skipped} (--values keeps them)", quiet=quiet)
    if done.timed_out:
        note(f"the script was stopped by --timeout {timeout:g} (status {done.status})", quiet=quiet)
    elif done.status:
        note(f"the script ended with status {done.status}", quiet=quiet)
    elif not any(map(len, done.profile.timelines)):
        warn(f"{script} called no ttnn operation: nothing was measured")
