# SPDX-License-Identifier: Apache-2.0
"""Make (or find) an interpreter that has the pinned ttnn, and print its path.

    python tools/ttnn_env.py            # prints .../device/bin/python, installs on the first call
    python tools/ttnn_env.py --check    # prints the path if it is there already, else exits 3

ttnn has wheels for CPython 3.12 and 3.10 only, so the interpreter is looked for, not assumed: PATH, pyenv's versions
folder, uv's, conda's. The environment lives in `$TTMEM_HOME/device` (default `~/.ttmem/device`). Needs nothing but the
standard library. Exit 0: the path is on stdout. Exit 3: no suitable interpreter, or the install failed; see stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TTNN_VERSION = "0.81.1"
WANTED = ("3.12", "3.10")
_PROBE = (
    "import sys, venv, ensurepip; "
    "assert sys.implementation.name == 'cpython' and sys.maxsize > 2**32; "
    "print('%d.%d' % sys.version_info[:2])"
)


def home() -> Path:
    return Path(os.environ.get("TTMEM_HOME") or Path.home() / ".ttmem")


def say(text: str) -> None:
    print(text, file=sys.stderr)


def candidates(version: str) -> Iterator[Path]:
    """Interpreters that may be of this version, the likeliest first; whether one runs is found out by running it."""
    name = f"python{version}"
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder:
            yield Path(folder) / name
    roots = [Path(os.environ["PYENV_ROOT"])] if os.environ.get("PYENV_ROOT") else []
    roots.append(Path.home() / ".pyenv")
    for root in roots:
        yield from sorted(root.glob(f"versions/{version}.*/bin/{name}"), reverse=True)
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local" / "share" / "uv" / "python")
    yield from sorted(uv.glob(f"cpython-{version}*/bin/{name}"), reverse=True)
    conda = [Path(p) for p in (os.environ.get("CONDA_PREFIX"), os.environ.get("CONDA_ROOT")) if p]
    conda += [Path.home() / n for n in ("miniconda3", "anaconda3", "miniforge3", "mambaforge")] + [Path("/opt/conda")]
    for root in conda:
        yield root / "bin" / name
        yield from sorted(root.glob(f"envs/*/bin/{name}"))
    yield from (Path(prefix) / "bin" / name for prefix in ("/usr", "/usr/local", "/opt/homebrew"))


def really_runs(interpreter: Path, version: str) -> bool:
    """A shim on PATH may exist and still refuse to start; a Debian python may lack venv."""
    if not interpreter.is_file() or not os.access(interpreter, os.X_OK):
        return False
    try:
        found = subprocess.run([interpreter, "-c", _PROBE], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0 and found.stdout.strip() == version


def find_interpreter() -> Path | None:
    for version in WANTED:
        tried: set[Path] = set()
        for interpreter in candidates(version):
            if interpreter not in tried and really_runs(interpreter, version):
                return interpreter
            tried.add(interpreter)
    return None


def installed_version(python: Path) -> str | None:
    """The ttnn in that environment; None when the environment or the package is not there."""
    if not python.exists():
        return None
    probe = "import importlib.metadata as m; print(m.version('ttnn'))"
    try:
        found = subprocess.run([python, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() if found.returncode == 0 else None


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Two test runs that start together must not install into one folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "device.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(interpreter: Path, target: Path) -> str | None:
    """Create the environment and install ttnn; the reason when it did not work."""
    shutil.rmtree(target, ignore_errors=True)
    say(f"making {target} with {interpreter}")
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    steps: list[list[str | Path]] = [
        [interpreter, "-m", "venv", target],
        [target / "bin" / "python", *pip, f"ttnn=={TTNN_VERSION}"],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(target, ignore_errors=True)
            return (done.stderr or done.stdout).strip()[-2000:]
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=f"An interpreter with ttnn {TTNN_VERSION}: find it or make it.")
    parser.add_argument("--check", action="store_true", help="only look, do not install")
    options = parser.parse_args()
    target = home() / "device"
    python = target / "bin" / "python"
    if installed_version(python) == TTNN_VERSION:
        print(python)
        return 0
    if options.check:
        say(f"no ttnn {TTNN_VERSION} in {target}; `python tools/ttnn_env.py` installs it")
        return 3
    with locked(home()):
        if installed_version(python) == TTNN_VERSION:
            print(python)
            return 0
        interpreter = find_interpreter()
        if interpreter is None:
            say(
                f"no CPython {' or '.join(WANTED)} that runs was found (PATH, pyenv, uv, conda); "
                "ttnn has wheels for these only. Install one, e.g. `uv python install 3.12`, and call this again"
            )
            return 3
        reason = install(interpreter, target)
    if reason:
        say(f"could not install ttnn {TTNN_VERSION}: {reason}")
        return 3
    print(python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
