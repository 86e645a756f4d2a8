# SPDX-License-Identifier: Apache-2.0
"""The managed environment: a virtual environment with the pinned ttnn, made by an interpreter that has wheels."""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ttmem.base.child_process import probe_command
from ttmem.base.errors import BadInputError, MissingPartError
from ttmem.engines.interpreters import (
    PINNED_TTNN,
    WHEEL_PYTHONS,
    Interpreter,
    check_release,
    find_pythons,
    locate_managed_folder,
    locate_managed_python,
    probe,
)

_TESTS = ("pytest>=8.2",)
"""Needed by ``ttmem test``."""
_PACKAGE = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w.,\s-]*\])?(?:\s*(?:[<>=!~]=?|===)\s*[\w.*+!-]+,?)*")
_PROGRESS = ("Collecting", "Downloading", "Building", "Installing", "Successfully installed")
_NEEDS = """
import importlib.metadata, re
todo, seen = ['ttnn'], set()
while todo:
    name = re.sub('[-_.]+', '-', todo.pop()).lower()
    if name in seen: continue
    seen.add(name)
    try: found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError: continue
    print(f'{name}=={found.version}')
    todo += [re.match('[A-Za-z0-9._-]+', line)[0] for line in found.requires or () if 'extra ==' not in line]
"""
"""Prints the installed versions of what ttnn needs, as constraints for pip."""


@dataclass(frozen=True, slots=True)
class Installation:
    interpreter: Interpreter
    made_now: bool


def find_installed(release: str = PINNED_TTNN) -> Interpreter | None:
    """Return the managed environment, if it is complete and has this ttnn."""
    if not locate_managed_python(release).exists():
        return None
    found = probe(locate_managed_python(release), "the managed environment")
    return found if isinstance(found, Interpreter) and found.ttnn_version == release else None


def install(
    python: str | None = None,
    *,
    release: str = PINNED_TTNN,
    packages: Sequence[str] = (),
    force: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Installation:
    """Make the environment of a release, or reuse it, and add packages. ``python`` names the interpreter to make it
    with."""
    check_release(release)
    for package in packages:
        _check_package(package)
    folder = locate_managed_folder(release)
    with _lock(folder.with_name(f"{folder.name}.lock")):
        there = find_installed(release)
        if there is not None and not force:
            if not there.pytest_version:  # an environment of before 'ttmem test'
                _pip_install(locate_managed_python(release), _TESTS, say)
            _add_beside_ttnn(locate_managed_python(release), packages, say)
            return Installation(find_installed(release) or there, made_now=False)
        base = _choose_base(python, release)
        say(f"making {folder} with Python {base.python_version} ({base.found_by})")
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _run([base.path, "-I", "-m", "venv", str(folder)], "the virtual environment could not be made")
            say(f"installing ttnn {release} and pytest (about 220 MiB to download, 700 MiB on disk)")
            _pip_install(locate_managed_python(release), (f"ttnn=={release}", *_TESTS), say)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        _add_beside_ttnn(locate_managed_python(release), packages, say)
    made = find_installed(release)
    if made is None:
        raise MissingPartError("the environment was made but has no working ttnn", where=str(folder))
    return Installation(made, made_now=True)


def split_packages(text: str) -> tuple[str, ...]:
    """Split ``--with`` at commas, except before a further condition (``torch>=2.6,<3``)."""
    return tuple(part.strip() for part in re.split(r",(?!\s*[<>=!~])", text) if part.strip())


def _check_package(package: str) -> None:
    """Accept a name, perhaps with extras and a version: pip takes options and addresses in the same place."""
    if not _PACKAGE.fullmatch(package):
        raise BadInputError(
            f"`--with` expects names of packages, got '{package}'",
            hint="for example: --with torch,transformers==5.22.2",
        )


def _add_beside_ttnn(python: Path, packages: Sequence[str], say: Callable[[str], None]) -> None:
    """Install packages without changing what ttnn needs."""
    if not packages:
        return
    if any(re.match(r"torch\b", package) for package in packages):
        say(
            "note: torch may come with CUDA libraries (gigabytes); PIP_INDEX_URL set to PyTorch's CPU index avoids them"
        )
    found = subprocess.run(probe_command(python, _NEEDS), capture_output=True, text=True, check=True)
    with tempfile.NamedTemporaryFile("w", prefix="ttmem-constraints-", suffix=".txt") as constraints:
        constraints.write(found.stdout)
        constraints.flush()
        say(f"installing {', '.join(packages)}")
        _pip_install(python, packages, say, "--constraint", constraints.name)


def _pip_install(python: Path, packages: Sequence[str], say: Callable[[str], None], *options: str) -> None:
    quiet = ("--disable-pip-version-check", "--no-input", "--progress-bar", "off")
    pip = [str(python), "-I", "-m", "pip", "install", *quiet, *options]
    _run([*pip, *packages], f"pip could not install {', '.join(packages)}", say)


def _choose_base(python: str | None, release: str) -> Interpreter:
    """Choose an interpreter that runs and can make environments."""
    reasons: list[str] = []
    for path, found_by in [(python, "--python")] if python else find_pythons():
        found = probe(path, found_by)
        if isinstance(found, str):
            reasons.append(found)
        elif not found.python_version.startswith(tuple(f"{version}." for version in WHEEL_PYTHONS)):
            reasons.append(f"{path} is Python {found.python_version}")
        elif found.implementation != "CPython" or not found.has_venv:
            reasons.append(f"{path} is not a CPython with the modules venv and ensurepip")
        else:
            return found
    wanted = " or ".join(WHEEL_PYTHONS)
    raise MissingPartError(
        f"no CPython {wanted} that runs, and ttnn {release} has wheels for no other"
        + (f" ({'; '.join(reasons)})" if reasons else ""),
        hint="install one (for example 'uv python install 3.12'), or name it: ttmem device install --python PATH",
    )


def _run(command: list[str], what: str, say: Callable[[str], None] = lambda _: None) -> None:
    """Run a command; pass on its progress lines, and report its errors when it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    lines: list[str] = []
    try:
        with subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as child:
            for line in child.stdout or ():
                lines.append(line.strip())
                if line.lstrip().startswith(_PROGRESS):
                    say(f"  {line.strip()}")
    except OSError as error:
        raise MissingPartError(f"{what}: {error.strerror}", where=command[0]) from None
    if child.returncode:
        errors = [line for line in lines if line.upper().startswith("ERROR")] or [line for line in lines if line]
        reason = " ".join(errors[-3:])[-600:]
        raise MissingPartError(f"{what}: {reason}", hint=_suggest_hint(lines))


def _suggest_hint(lines: Sequence[str]) -> str:
    if any("constraint" in line for line in lines):
        return "ttnn's own requirements are not changed: choose a version that is compatible with them"
    return "it needs an index that has the wheel, and room on the disk; then try again"


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Lock the folder: two installations at once would fill it together."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
