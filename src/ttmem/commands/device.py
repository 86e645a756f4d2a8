# SPDX-License-Identifier: Apache-2.0
"""``ttmem device``: Find, install and diagnose the ttnn environment."""

import click

from ttmem.commands.options import board_option, json_option, python_option, quiet_option
from ttmem.commands.output import emit, json_text, note
from ttmem.commands.command_line import GroupWithExamples, debug_option

_EXAMPLES = """
ttmem device install
ttmem device install --with torch,transformers
ttmem device info --json
ttmem device doctor
"""


@click.group("device", cls=GroupWithExamples, epilog=_EXAMPLES)
def command() -> None:
    """Find, install and diagnose the real ttnn, with or without a card.

    ttnn runs in an interpreter of its own: --python, TTMEM_TTNN_PYTHON, the one that runs ttmem, or the managed one in
    ~/.ttmem/device (TTMEM_HOME moves it). Boards that are not in this machine are opened as mocks.
    """


command.params.append(debug_option())


@command.command("info", epilog="ttmem device info --json")
@json_option
@python_option()
def info(as_json: bool, python: str | None) -> None:
    """List what this machine has: interpreters with ttnn, cards, boards that can be mocked."""
    from ttmem.commands.library import device
    from ttmem.reports.device import terminal

    found = device.info(python)
    emit(json_text(found) if as_json else terminal.info(found), None)


_INSTALL_EXAMPLES = """
ttmem device install
ttmem device install --with torch,transformers
ttmem device install --force
ttmem device install --ttnn 0.78.0
"""


@command.command("install", epilog=_INSTALL_EXAMPLES)
@json_option
@click.option("--python", metavar="PATH", help="Create it with this CPython 3.12 or 3.10 (default: search for one).")
@click.option(
    "--ttnn", "release", metavar="VERSION", help="Install this release next to the others (default: the tested one)."
)
@click.option(
    "--with",
    "packages",
    metavar="PACKAGE,..",
    default="",
    help="Also install these packages, for example torch,transformers; the packages that ttnn needs stay as they are.",
)
@click.option("--force", is_flag=True, help="Create it again even if it exists.")
@quiet_option
def install_verb(
    as_json: bool, python: str | None, release: str | None, packages: str, force: bool, quiet: bool
) -> None:
    """Create the managed environment with the ttnn release that ttmem was tested with, or with another one.

    Needs a CPython 3.12 or 3.10 (searched on PATH, in pyenv, uv and conda) and the network once; no root rights. With
    --with, packages that your scripts import are added to the environment, also when it exists already. For torch
    without CUDA libraries let pip use PyTorch's CPU index (PIP_INDEX_URL).
    """
    from ttmem.commands.library import device
    from ttmem.engines.install import packages_of

    done = device.install(
        python,
        release=release,
        packages=packages_of(packages),
        force=force,
        say=lambda text: note(text, quiet=quiet),
    )
    emit(json_text(done) if as_json else done.interpreter.path, None)
    if not as_json:
        note("installed" if done.made_now else "already installed", quiet=quiet)
        note("next: ttmem device doctor", quiet=quiet)


@command.command("doctor", epilog="ttmem device doctor --board p150")
@json_option
@python_option()
@board_option("The mock board to try.")
def doctor(as_json: bool, python: str | None, board: str) -> int:
    """Try everything that a mock board needs and print a remedy for what fails. Exit 0 when all works, else 1."""
    from ttmem.commands.library import device
    from ttmem.reports.device import terminal

    found = device.examine(python, board=board)
    emit(json_text(found) if as_json else terminal.doctor(found), None)
    return 0 if found.works else 1
