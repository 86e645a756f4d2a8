# SPDX-License-Identifier: Apache-2.0
"""Checks of what this machine has for running ttnn, and what to do about the rest."""

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ttmem.base.errors import TtmemError
from ttmem.base.home import home_folder
from ttmem.engines.engine import Step
from ttmem.engines.interpreters import (
    OLDEST_TTNN,
    PINNED_TTNN,
    Interpreter,
    find_interpreter,
    find_pythons,
    list_candidates,
    probe,
)
from ttmem.engines.mock_board import list_mock_boards
from ttmem.engines.ttnn import TtnnEngine
from ttmem.engines.workspace import find_cache_folder, find_cards, make_runtime_root

FINE, WARNING, PROBLEM = "ok", "warning", "problem"

_DRIVER = Path("/sys/module/tenstorrent/version")


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: str
    detail: str
    do: str = ""
    """Remedy; empty when none is needed."""


@dataclass(frozen=True, slots=True)
class Equipment:
    """The machine's equipment for ttnn, without trying it."""

    interpreters: tuple[Interpreter, ...]
    """Those with ttnn, in the order in which they are tried."""
    chosen: Interpreter | None
    cards: tuple[str, ...]
    driver_version: str
    boards: tuple[str, ...]
    cache: str
    cache_bytes: int


def find_equipment(python: str | None = None) -> Equipment:
    """Find the equipment; only interpreters are started, to report what they have."""
    found = []
    for path, found_by in list_candidates(python):
        known = probe(path, found_by) if Path(path).exists() else ""
        if isinstance(known, Interpreter) and known.package:
            found.append(known)
    try:
        chosen: Interpreter | None = find_interpreter(python)
    except TtmemError:
        chosen = None
    cache = home_folder() / "cache"
    return Equipment(
        interpreters=tuple(found),
        chosen=chosen,
        cards=tuple(find_cards()),
        driver_version=_read_driver_version(),
        boards=list_mock_boards(),
        cache=str(cache),
        cache_bytes=sum(path.stat().st_size for path in cache.rglob("*") if path.is_file() and not path.is_symlink()),
    )


def run_checks(python: str | None = None, *, board: str = "n150") -> list[Check]:
    """Check all that a mock board needs to open, in that order; a problem ends the list."""
    checks: list[Check] = []
    for check in _run_checks(python, board):
        checks.append(check)
        if check.state == PROBLEM:
            break
    return [*checks, _check_card()]


def _run_checks(python: str | None, board: str) -> Iterator[Check]:
    yield _check_home()
    try:
        interpreter = find_interpreter(python)
    except TtmemError as error:
        pythons = [path for path, _ in find_pythons()]
        detail = f"{error}; interpreters that could get it: {', '.join(pythons) or 'none'}"
        yield Check("interpreter", PROBLEM, detail, error.hint)
        return
    yield _check_release(interpreter)
    yield _check_compiler(interpreter)
    yield _check_mock(python, board)


def _check_home() -> Check:
    home = home_folder()
    place = home if home.exists() else home.parent
    if os.access(place, os.W_OK):
        return Check("home", FINE, str(home))
    return Check("home", WARNING, f"{home} cannot be written to: nothing is cached or stored", "set TTMEM_HOME")


def _check_release(interpreter: Interpreter) -> Check:
    has = f"{interpreter.path} ({interpreter.found_by}): Python {interpreter.python_version}, ttnn"
    if interpreter.ttnn_version == PINNED_TTNN:
        return Check("interpreter", FINE, f"{has} {interpreter.ttnn_version}")
    version = interpreter.ttnn_version or "without a version, a build of your own"
    oldest = ".".join(map(str, OLDEST_TTNN))
    return Check(
        "interpreter",
        WARNING,
        f"{has} {version}; ttmem was tested with {PINNED_TTNN}, releases from {oldest} on are known to work",
    )


def _check_compiler(interpreter: Interpreter) -> Check:
    """Check that the stub compiler may run: a home on a noexec mount cannot hold it."""
    try:
        root = make_runtime_root(interpreter, find_cache_folder(interpreter))
        stub = root / "runtime" / "sfpi" / "compiler" / "bin" / "riscv-tt-elf-g++"
        done = subprocess.run([stub, "--version"], capture_output=True, timeout=30, check=False)
    except (OSError, TtmemError, subprocess.TimeoutExpired) as error:
        return Check("runtime root", PROBLEM, str(error), "set TTMEM_HOME to a folder where programs may run")
    if done.returncode:
        return Check("runtime root", PROBLEM, f"{stub} ended with status {done.returncode}", "is there a /bin/sh?")
    return Check("runtime root", FINE, str(root))


def _check_mock(python: str | None, board: str) -> Check:
    steps: list[Step] = [
        {"alloc": "a", "shape": [64, 64], "dtype": "bfloat16", "layout": "tile"},
        {"call": "ttnn.add", "args": [{"tensor": "a"}, {"tensor": "a"}]},
    ]
    started = time.monotonic()
    try:
        with TtnnEngine(board=board, python=python) as engine:
            outcome = engine.ask(steps)
            pools = engine.device["pools"]
    except TtmemError as error:
        return Check(f"mock {board}", PROBLEM, str(error), error.hint)
    if not outcome.ok:
        return Check(f"mock {board}", PROBLEM, f"an addition ended with {outcome.status}: {outcome.message}")
    banks = ", ".join(f"{name} {pools[name][0]} x {pools[name][2]} B" for name in ("DRAM", "L1"))
    return Check(f"mock {board}", FINE, f"opens and adds in {time.monotonic() - started:.1f} s ({banks})")


def _check_card() -> Check:
    found = find_cards()
    if not found:
        return Check("card", FINE, "none in this machine; mock boards need none")
    closed = [path for path in found if not os.access(path, os.R_OK | os.W_OK)]
    if closed:
        return Check(
            "card", WARNING, f"{', '.join(closed)} may not be opened", "join the group that owns the device file"
        )
    version = _read_driver_version() or "unknown"
    return Check("card", FINE, f"{len(found)} ({', '.join(found)}), driver {version}; 'ttmem run --card' uses it")


def _read_driver_version() -> str:
    return _DRIVER.read_text().strip() if _DRIVER.is_file() else ""
