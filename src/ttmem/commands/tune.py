# SPDX-License-Identifier: Apache-2.0
"""``ttmem tune``: Find the changes that make a captured run fit, and prove them on a mock board."""

import shlex
from pathlib import Path
from typing import Any

import click

from ttmem.commands import options
from ttmem.commands.output import emit, json_text, looks, note, stderr_descriptor
from ttmem.commands.command_line import verb

_LIMIT = "80%, 0.8, or bytes per bank such as 700MiB"


@verb("""
ttmem tune block
ttmem tune block --target fits --verify
ttmem tune block --max-l1 70% --patch smaller.diff
ttmem tune block --max-dram 80% --json
""")
@options.source_argument("source")
@click.option("--target", type=click.Choice(["fits"]), help="Nothing runs out of memory.")
@click.option("--max-dram", metavar="LIMIT", help=f"Highest DRAM peak: {_LIMIT}.")
@click.option("--max-l1", metavar="LIMIT", help="Highest L1 peak with what programs need, in the same forms.")
@options.count_option("--most", help="At most N edits (default: 10 without a target, else 24).")
@click.option("--verify", is_flag=True, help="Run the script again on the mock with the edits, and compare.")
@click.option(
    "--script", metavar="COMMAND", help="What --verify runs: the script and its arguments (for a file of other origin)."
)
@click.option("--timeout", type=float, metavar="SECONDS", help="Stop each run of --verify after SECONDS.")
@options.file_option("--patch", "patch_path", place=options.product_place, help="Write the edits as a unified diff.")
@options.file_option("--sarif", "sarif_path", help="Also write the findings as SARIF 2.1.0.")
@options.json_option
@options.python_option()
@options.ttnn_option
@options.output_option
@options.quiet_option
def command(
    source: str,
    verify: bool,
    script: str | None,
    patch_path: Path | None,
    sarif_path: Path | None,
    as_json: bool,
    output: Path | None,
    quiet: bool,
    **settings: Any,
) -> int:
    """Find the smallest set of edits that brings SOURCE, a run captured by 'ttmem run', to a target.

    Cheap edits come first: freeing at the last use, writing in place, unused regions, L1 or DRAM, narrower
    data types, parts. Exit 1 when the target is not reached. Without a target: the edits that lower the peaks most.
    Nothing is written but the patch, whose paths are relative to the current folder ('git apply', 'patch -p1').
    """
    import ttmem
    from ttmem.base.atomic_files import write_bytes
    from ttmem.commands import profile_answer
    from ttmem.commands.library.tune import command_to_verify
    from ttmem.reports.kit.units import one_line
    from ttmem.reports.tune import sarif, terminal

    profile_answer.protect(source, outputs=(output, patch_path, sarif_path))
    if verify:
        words = command_to_verify(source, script)
        note(one_line(f"--verify runs: {shlex.join(words)}"))
        script = shlex.join(words)
    found = ttmem.tune(source, verify=verify, script=script, output=stderr_descriptor(), **settings)
    answer = found.document(patched=patch_path is not None)
    if patch_path is not None:
        patch = found.patch()
        if patch.text:
            write_bytes(patch_path, patch.text.encode())  # a carriage return of the source is part of its lines
            note(f"wrote {patch_path}", quiet=quiet)
        else:
            note(f"{patch_path} was not written: no edit can be part of a patch", quiet=quiet)
        for edit in patch.left_out:
            note(f"not in the patch ({patch.hunks[edit].why_not}); edit by hand: {edit}", quiet=quiet)
    if sarif_path is not None:
        script = found.history.profile.source.name
        emit(sarif.render([(one, script) for one in found.findings]), sarif_path)
        note(f"wrote {sarif_path}", quiet=quiet)
    emit(json_text(answer.to_json()) if as_json else terminal.render(answer, **looks(output)), output)
    return 0 if found.reached else 1
