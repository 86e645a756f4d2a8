# SPDX-License-Identifier: Apache-2.0
"""Make (or find) an interpreter that has torch and transformers, and print its path.

    python tools/torch_env.py            # prints .../torch/bin/python, installs on the first call
    python tools/torch_env.py --check    # prints the path if it is there already, else exits 3

Models are traced in a process of their own, so torch need not be in the environment that runs the tests. The one made
here lives in `$TTMEM_HOME/torch` (default `~/.ttmem/torch`) and is used by `ttmem ops extract` when nothing else has
torch. Pinned to a CPU build for CPython 3.11: anything else is gigabytes of accelerator libraries that tracing never
uses. Needs nothing but the standard library. Exit 0: the path is on stdout. Exit 3: no such interpreter, or the install
failed; see stderr.
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

PYTHON = "3.11"
PACKAGES = ("torch==2.13.0", "transformers==5.22.2")
_PROBE = (
    "import importlib.metadata as m, importlib.util as u; "
    "print(' '.join(f'{p}=={m.version(p).split(\"+\")[0]}' for p in ('torch', 'transformers')))"
)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def home() -> Path:
    return Path(os.environ.get("TTMEM_HOME") or Path.home() / ".ttmem")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Two test runs that start together must not install into one folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "torch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def candidates() -> Iterator[Path]:
    """Interpreters that may be of the version: this one, PATH, pyenv's, uv's and conda's."""
    name = f"python{PYTHON}"
    yield Path(sys.executable)
    for folder in filter(None, os.environ.get("PATH", "").split(os.pathsep)):
        yield Path(folder) / name
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{PYTHON}.*/bin/{name}"), reverse=True)
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local" / "share" / "uv" / "python")
    yield from sorted(uv.glob(f"cpython-{PYTHON}*/bin/{name}"), reverse=True)
    for root in filter(None, (os.environ.get("CONDA_PREFIX"), "/opt/conda", "/usr", "/usr/local")):
        yield Path(root) / "bin" / name


def really_runs(interpreter: Path) -> bool:
    """A shim on PATH may exist and still refuse to start; a Debian python may lack venv."""
    probe = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2], sys.implementation.name)"
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        found = subprocess.run([interpreter, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
        return found.returncode == 0 and found.stdout.split() == [PYTHON, "cpython"]
    return False


def is_ready(python: Path) -> bool:
    """Whether the environment has exactly the pinned packages."""
    if not python.exists():
        return False
    try:
        found = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0 and found.stdout.split() == list(PACKAGES)


def find_interpreter() -> Path | None:
    """A CPython of the version that has the CPU build."""
    return next((path for path in candidates() if really_runs(path)), None)


def install(interpreter: Path, target: Path) -> str | None:
    """Create the environment and install the packages; the reason when it did not work."""
    shutil.rmtree(target, ignore_errors=True)
    say(f"making {target} with {interpreter} (some minutes: torch is large)")
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    steps: list[list[str | Path]] = [
        [interpreter, "-m", "venv", target],
        [target / "bin" / "python", *pip, *PACKAGES],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(target, ignore_errors=True)
            return (done.stderr or done.stdout).strip()[-2000:]
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=f"An interpreter with {' and '.join(PACKAGES)}: find it or make it.")
    parser.add_argument("--check", action="store_true", help="only look, do not install")
    options = parser.parse_args()
    target = home() / "torch"
    python = target / "bin" / "python"
    if is_ready(python):
        print(python)
        return 0
    if options.check:
        say(f"no {' and '.join(PACKAGES)} in {target}; `python tools/torch_env.py` installs them")
        return 3
    with locked(home()):
        if is_ready(python):
            print(python)
            return 0
        interpreter = find_interpreter()
        if interpreter is None:
            say(f"no CPython {PYTHON} that runs was found (PATH, pyenv, uv, conda); torch is pinned to a build for it")
            return 3
        reason = install(interpreter, target)
    if reason:
        say(f"could not install {' and '.join(PACKAGES)}: {reason}")
        return 3
    print(python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
