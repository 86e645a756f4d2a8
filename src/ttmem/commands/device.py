# SPDX-License-Identifier: Apache-2.0
"""``ttmem device``: What can run ttnn here, making it, and why it does not work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ttmem.commands._options import quiet_option
from ttmem.commands._output import emit, json_text, note
from ttmem.commands._runner import CONTEXT, WithExamples, debug_option

if TYPE_CHECKING:
    from ttmem.engines.doctor import Check, Machine
    from ttmem.engines.interpreters import Interpreter

_EXAMPLES = """
ttmem device install
ttmem device info --json
ttmem device doctor
"""


class _Device(WithExamples, click.Group):
    """The group's own help has examples too."""


@click.group("device", cls=_Device, epilog=_EXAMPLES, context_settings=CONTEXT)
def command() -> None:
    """The real ttnn, with or without a card: what this machine has, the managed environment, what is wrong.

    ttnn runs in an interpreter of its own: --python, TTMEM_TTNN_PYTHON, the one that runs ttmem, or the managed one in
    ~/.ttmem/device (TTMEM_HOME moves it). Boards that are not there are opened as mocks.
    """


command.params.append(debug_option())
_python = click.option("--python", metavar="PATH", help="An interpreter that has ttnn (also: TTMEM_TTNN_PYTHON).")
_json = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


@command.command("info", cls=WithExamples, epilog="ttmem device info --json", context_settings=CONTEXT)
@_json
@_python
def info(as_json: bool, python: str | None) -> None:
    """What this machine has: interpreters with ttnn, cards, boards that can be mocked."""
    from ttmem.engines.doctor import machine

    found = machine(python)
    emit(json_text(_document(found)) if as_json else _text(found), None)


@command.command(
    "install", cls=WithExamples, epilog="ttmem device install\nttmem device install --force", context_settings=CONTEXT
)
@_json
@click.option("--python", metavar="PATH", help="Make it with this CPython 3.12 or 3.10 (default: one is looked for).")
@click.option("--force", is_flag=True, help="Make it anew even if it is there.")
@quiet_option
def install_verb(as_json: bool, python: str | None, force: bool, quiet: bool) -> None:
    """Make the managed environment with the ttnn release that ttmem was tested with.

    Needs a CPython 3.12 or 3.10 (looked for on PATH, in pyenv, uv and conda), the network once, and no rights.
    """
    from ttmem.engines.install import install

    done = install(python, force=force, say=lambda text: note(text, quiet=quiet))
    if as_json:
        emit(json_text({"made_now": done.made_now, "interpreter": _interpreter(done.interpreter)}), None)
        return
    emit(done.interpreter.path, None)
    note("made" if done.made_now else "there already", quiet=quiet)
    note("next: ttmem device doctor", quiet=quiet)


@command.command("doctor", cls=WithExamples, epilog="ttmem device doctor --board p150", context_settings=CONTEXT)
@_json
@_python
@click.option("--board", default="n150", show_default=True, metavar="BOARD", help="The mock board to try.")
def doctor(as_json: bool, python: str | None, board: str) -> int:
    """Try everything that a mock board needs, and say what to do about what fails: exit 0 when it works, else 1."""
    from ttmem.engines.doctor import PROBLEM, examine
    from ttmem.hardware import BOARDS

    checks = examine(python, board=BOARDS.find(board).name)
    works = all(check.state != PROBLEM for check in checks)
    if as_json:
        rows = [{"name": c.name, "state": c.state, "detail": c.detail, "do": c.do} for c in checks]
        emit(json_text({"works": works, "checks": rows}), None)
    else:
        emit("\n".join(_lines(checks)), None)
    return 0 if works else 1


def _lines(checks: list[Check]) -> list[str]:
    lines = []
    for check in checks:
        lines.append(f"{check.state:<8} {check.name}: {check.detail}")
        if check.do:
            lines.append(f"{'':<8} do: {check.do}")
    return lines


def _document(found: Machine) -> dict[str, Any]:
    from ttmem.engines.interpreters import OLDEST_TTNN, PINNED_TTNN

    return {
        "interpreter": _interpreter(found.chosen) if found.chosen else None,
        "interpreters": [_interpreter(interpreter) for interpreter in found.interpreters],
        "ttnn": {"tested": PINNED_TTNN, "oldest": ".".join(map(str, OLDEST_TTNN))},
        "cards": list(found.cards),
        "driver": found.driver_version or None,
        "boards": list(found.boards),
        "cache": {"folder": found.cache, "bytes": found.cache_bytes},
    }


def _interpreter(interpreter: Interpreter) -> dict[str, Any]:
    return {
        "path": interpreter.path,
        "found_by": interpreter.found_by,
        "python": interpreter.python_version,
        "ttnn": interpreter.ttnn_version or None,
        "torch": interpreter.torch_version or None,
        "pytest": interpreter.pytest_version or None,
    }


def _text(found: Machine) -> str:
    rows = []
    for interpreter in found.interpreters:
        mark = "*" if found.chosen and interpreter.path == found.chosen.path else " "
        torch = f", torch {interpreter.torch_version}" if interpreter.torch_version else ""
        rows.append(
            f"{mark} ttnn {interpreter.ttnn_version or '?'}  {interpreter.path}  "
            f"(Python {interpreter.python_version}{torch}; {interpreter.found_by})"
        )
    if not rows:
        rows.append("  no interpreter with ttnn; make one with 'ttmem device install'")
    cards = f"{len(found.cards)} ({', '.join(found.cards)})" if found.cards else "none (mock boards need none)"
    rows.append(f"  cards  {cards}" + (f", driver {found.driver_version}" if found.driver_version else ""))
    rows.append(f"  mocks  {', '.join(found.boards)}")
    rows.append(f"  cache  {found.cache}, {found.cache_bytes / (1 << 20):.1f} MB")
    return "\n".join(rows)
