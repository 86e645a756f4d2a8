# SPDX-License-Identifier: Apache-2.0
"""Make the managed environment: a virtual environment with the pinned ttnn, made by an interpreter that has wheels."""

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ttmem._errors import MissingPartError
from ttmem.engines.interpreters import (
    PINNED_TTNN,
    WHEEL_PYTHONS,
    Interpreter,
    check_release,
    installed_pythons,
    managed_folder,
    managed_python,
    probe,
)

_TESTS = ("pytest>=8.2",)
"""Because ``ttmem test`` runs it beside ttnn."""


@dataclass(frozen=True, slots=True)
class Installed:
    """The managed environment."""

    interpreter: Interpreter
    made_now: bool


def installed(release: str = PINNED_TTNN) -> Interpreter | None:
    """The managed environment, if it is whole and has this ttnn."""
    if not managed_python(release).exists():
        return None
    found = probe(managed_python(release), "the managed environment")
    return found if isinstance(found, Interpreter) and found.ttnn_version == release else None


def install(
    python: str | None = None,
    *,
    release: str = PINNED_TTNN,
    force: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Installed:
    """Make the environment of a release, or find it made. ``python`` names the interpreter to make it with."""
    check_release(release)
    folder = managed_folder(release)
    with _locked(folder.with_name(f"{folder.name}.lock")):
        there = installed(release)
        if there is not None and not force:
            if not there.pytest_version:  # an environment of before 'ttmem test'
                _add(managed_python(release), _TESTS)
            return Installed(installed(release) or there, made_now=False)
        base = _base(python, release)
        say(f"making {folder} with Python {base.python_version} ({base.found_by})")
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _run([base.path, "-I", "-m", "venv", str(folder)], "the virtual environment could not be made")
            say(f"installing ttnn {release} and pytest (about 220 MiB to download, 700 MiB on disk)")
            _add(managed_python(release), (f"ttnn=={release}", *_TESTS))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    made = installed(release)
    if made is None:
        raise MissingPartError("the environment was made but has no working ttnn", where=str(folder))
    return Installed(made, made_now=True)


def _add(python: Path, packages: Sequence[str]) -> None:
    quiet = ("--disable-pip-version-check", "--no-input", "--progress-bar", "off")
    pip = [str(python), "-I", "-m", "pip", "install", *quiet]
    _run([*pip, *packages], f"pip could not install {packages[0]}")


def _base(python: str | None, release: str) -> Interpreter:
    """The interpreter to make the environment with: one that really runs and can make environments."""
    reasons: list[str] = []
    for path, found_by in [(python, "--python")] if python else installed_pythons():
        found = probe(path, found_by)
        if isinstance(found, str):
            reasons.append(found)
        elif not found.python_version.startswith(tuple(f"{version}." for version in WHEEL_PYTHONS)):
            reasons.append(f"{path} is Python {found.python_version}")
        elif found.implementation != "CPython" or not found.has_venv:
            reasons.append(f"{path} is no CPython with the modules venv and ensurepip")
        else:
            return found
    wanted = " or ".join(WHEEL_PYTHONS)
    raise MissingPartError(
        f"no CPython {wanted} that runs, and ttnn {release} has wheels for no other"
        + (f" ({'; '.join(reasons)})" if reasons else ""),
        hint="install one (for example 'uv python install 3.12'), or name it: ttmem device install --python PATH",
    )


def _run(command: list[str], what: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except OSError as error:
        raise MissingPartError(f"{what}: {error.strerror}", where=command[0]) from None
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if line.upper().startswith("ERROR")] or lines
        reason = " ".join(errors[-3:])[-600:]
        raise MissingPartError(
            f"{what}: {reason}", hint="it needs an index that has the wheel, and room on the disk; then try again"
        )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two that install at once would fill one folder together."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
