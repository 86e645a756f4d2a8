# SPDX-License-Identifier: Apache-2.0
"""``ttmem device``: Find, install and diagnose the ttnn environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ttmem.commands.command_line import GroupWithExamples, debug_option, verb
from ttmem.commands.options import board_option, json_option, python_option, quiet_option
from ttmem.commands.output import emit, json_text, note

if TYPE_CHECKING:
    from ttmem.engines.interpreters import Interpreter
    from ttmem.reports.device import InterpreterRow

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


@verb("ttmem device info --json", group=command)
@json_option
@python_option()
def info(as_json: bool, python: str | None) -> None:
    """List what this machine has: interpreters with ttnn, cards, boards that can be mocked."""
    from ttmem.engines.doctor import find_equipment
    from ttmem.engines.interpreters import OLDEST_TTNN, PINNED_TTNN
    from ttmem.reports.device import Cache, DeviceInfo, Releases, render_info

    equipment = find_equipment(python)
    found = DeviceInfo(
        interpreter=_describe_interpreter(equipment.chosen) if equipment.chosen else None,
        interpreters=[_describe_interpreter(one) for one in equipment.interpreters],
        ttnn=Releases(PINNED_TTNN, ".".join(map(str, OLDEST_TTNN))),
        cards=equipment.cards,
        driver=equipment.driver_version or None,
        boards=equipment.boards,
        cache=Cache(equipment.cache, equipment.cache_bytes),
    )
    emit(json_text(found) if as_json else render_info(found), None)


def _describe_interpreter(found: Interpreter) -> InterpreterRow:
    from ttmem.reports.device import InterpreterRow

    return InterpreterRow(
        path=found.path,
        found_by=found.found_by,
        python_version=found.python_version,
        ttnn_version=found.ttnn_version or None,
        torch_version=found.torch_version or None,
        pytest_version=found.pytest_version or None,
    )


@verb(
    """
ttmem device install
ttmem device install --with torch,transformers
ttmem device install --force
ttmem device install --ttnn 0.78.0
""",
    group=command,
    line="Create the managed environment with the ttnn release that ttmem was tested with.",
)
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
def install(as_json: bool, python: str | None, release: str | None, packages: str, force: bool, quiet: bool) -> None:
    """Create the managed environment with the ttnn release that ttmem was tested with, or with another one.

    Needs a CPython 3.12 or 3.10 (searched on PATH, in pyenv, uv and conda) and the network once; no root rights. With
    --with, packages that your scripts import are added to the environment, also when it exists already. For torch
    without CUDA libraries let pip use PyTorch's CPU index (PIP_INDEX_URL).
    """
    from ttmem.engines import install as environments
    from ttmem.engines.interpreters import PINNED_TTNN
    from ttmem.reports.device import DeviceInstall

    done = environments.install(
        python,
        release=release or PINNED_TTNN,
        packages=environments.split_packages(packages),
        force=force,
        say=lambda text: note(text, quiet=quiet),
    )
    found = DeviceInstall(done.made_now, _describe_interpreter(done.interpreter))
    emit(json_text(found) if as_json else found.interpreter.path, None)
    if not as_json:
        note("installed" if done.made_now else "already installed", quiet=quiet)
        note("next: ttmem device doctor", quiet=quiet)


@verb("ttmem device doctor --board p150", group=command)
@json_option
@python_option()
@board_option("The mock board to try.")
def doctor(as_json: bool, python: str | None, board: str) -> int:
    """Try everything that a mock board needs and print a remedy for what fails. Exit 0 when all works, else 1."""
    from ttmem.engines.doctor import PROBLEM, run_checks
    from ttmem.hardware import BOARDS
    from ttmem.reports.device import DeviceDoctor, DoctorCheckRow, render_doctor

    checks = run_checks(python, board=BOARDS.find(board).name)
    found = DeviceDoctor(
        works=all(check.state != PROBLEM for check in checks),
        checks=[DoctorCheckRow(name=one.name, state=one.state, detail=one.detail, do=one.do) for one in checks],
    )
    emit(json_text(found) if as_json else render_doctor(found), None)
    return 0 if found.works else 1
