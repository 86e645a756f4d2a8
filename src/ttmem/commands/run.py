# SPDX-License-Identifier: Apache-2.0
"""``ttmem run``: Run a ttnn script on a mock board and report its memory use."""

from pathlib import Path
from typing import Any

import click

from ttmem.commands import options
from ttmem.commands.user_program import PASSING_CONTEXT, PassingThrough, passing_signals
from ttmem.commands.output import emit, note, stderr_descriptor, warn
from ttmem.commands.command_line import verb

_EXAMPLES = """
ttmem run block.py
ttmem run block.py --board p150 --json
ttmem run block.py --batch 4 --board n300 --html report.html
ttmem run block.py --board n150 -- --json
"""


_SHORT = {"-o": "--output", "-q": "--quiet", "-h": "--help"}


class _Run(PassingThrough):
    """The short options that every verb has, as words of their own only."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Spelled out before anything is parsed; everything after ``--`` goes to the script."""
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*(_SHORT.get(word, word) for word in args[:end]), *args[end:]])


@verb(_EXAMPLES, cls=_Run, context=PASSING_CONTEXT)
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
    import ttmem
    from ttmem.analysis.failure import run_end
    from ttmem.commands import profile_answer
    from ttmem.engines.workspace import cards
    from ttmem.profile import store
    from ttmem.readers.sources import Located
    from ttmem.reports.kit.units import counted

    form = options.one_of(json=as_json, llm=as_llm, csv=as_csv)
    if name is not None:
        name = store.check_name(name)
    if settings["card"]:
        note("running on the card", quiet=quiet)
    elif cards():
        note(f"running on a mock {settings['board']}; --card uses the card of this machine", quiet=quiet)
    printed = stderr_descriptor()
    run = ttmem.run(
        script, arguments, name=name, programs=not no_programs, output=printed, **settings, **passing_signals()
    )
    if run.is_empty and form is None and not (html_path or output):
        end = run_end(run.profile)
        how = f"; {end.sentence}" if end and not run.timed_out else ""
        emit(f"{run.profile.name}: no ttnn operation was recorded{how}", None)
        kept = None
    else:
        kept = profile_answer.deliver(
            run.profile,
            form,
            html_path=html_path,
            output=output,
            quiet=quiet,
            store=lambda: (
                None if no_store or run.is_empty else profile_answer.keep(run.profile, Located(script, None), name=name)
            ),
        )
    if skipped := run.profile.facts.get("skipped_comparisons"):
        ended = run.profile.facts.get("ended") or {}
        last = ", the last an assertion of the script, not judged" if ended.get("not_judged") else ""
        skipped = f"{counted(skipped, 'comparison')} skipped{last}"
        note(f"a mock computes no values: {skipped} (--values keeps them)", quiet=quiet)
    if run.timed_out:
        note(f"the script was stopped by --timeout {settings['timeout']:g} (status {run.status})", quiet=quiet)
    elif run.status:
        note(f"the script ended with status {run.status}", quiet=quiet)
    elif not any(map(len, run.profile.timelines)):
        warn(f"{script} called no ttnn operation: nothing was measured")
    if run.is_empty and not no_store:
        note("nothing was recorded, so nothing was stored", quiet=quiet)
    if run.remedy:
        note(f"next: {run.remedy}", quiet=quiet)
    else:
        profile_answer.say_what_next(run.profile, kept, quiet=quiet)
    return run.status
