# SPDX-License-Identifier: Apache-2.0
"""``ttmem device``: Find, install and diagnose the ttnn environment."""

import click

from ttmem.commands._options import board_option, json_option, python_option, quiet_option
from ttmem.commands._output import emit, json_text, note
from ttmem.commands._runner import GroupWithExamples, debug_option

_EXAMPLES = """
ttmem device install
ttmem device info --json
ttmem device doctor
"""


@click.group("device", cls=GroupWithExamples, epilog=_EXAMPLES)
def command() -> None:
    """Find, install and diagnose the real ttnn, with or without a card.

    ttnn runs in an interpreter of its own: --python, TTMEM_TTNN_PYTHON, the one that runs ttmem, or the managed one in
    ~/.ttmem/device (TTMEM_HOME moves it). Boards that are not there are opened as mocks.
    """


command.params.append(debug_option())


@command.command("info", epilog="ttmem device info --json")
@json_option
@python_option()
def info(as_json: bool, python: str | None) -> None:
    """List what this machine has: interpreters with ttnn, cards, boards that can be mocked."""
    from ttmem.library import device
    from ttmem.reports.device import terminal

    found = device.info(python)
    emit(json_text(found) if as_json else terminal.info(found), None)


_INSTALL_EXAMPLES = """
ttmem device install
ttmem device install --force
ttmem device install --ttnn 0.78.0
"""


@command.command("install", epilog=_INSTALL_EXAMPLES)
@json_option
@click.option("--python", metavar="PATH", help="Make it with this CPython 3.12 or 3.10 (default: one is looked for).")
@click.option("--ttnn", "release", metavar="VERSION", help="This release, beside the others (default: the tested one).")
@click.option("--force", is_flag=True, help="Make it anew even if it is there.")
@quiet_option
def install_verb(as_json: bool, python: str | None, release: str | None, force: bool, quiet: bool) -> None:
    """Install the ttnn release that ttmem was tested with into the managed environment, or another release next to it.

    Needs a CPython 3.12 or 3.10 (looked for on PATH, in pyenv, uv and conda), the network once, and no rights.
    """
    from ttmem.library import device

    done = device.install(python, release=release, force=force, say=lambda text: note(text, quiet=quiet))
    emit(json_text(done) if as_json else done.interpreter.path, None)
    if not as_json:
        note("installed" if done.made_now else "already installed", quiet=quiet)
        note("next: ttmem device doctor", quiet=quiet)


@command.command("doctor", epilog="ttmem device doctor --board p150")
@json_option
@python_option()
@board_option("The mock board to try.")
def doctor(as_json: bool, python: str | None, board: str) -> int:
    """Check everything that a mock board needs, with a fix for what fails: exit 0 when all works, else 1."""
    from ttmem.library import device
    from ttmem.reports.device import terminal

    found = device.examine(python, board=board)
    emit(json_text(found) if as_json else terminal.doctor(found), None)
    return 0 if found.works else 1
