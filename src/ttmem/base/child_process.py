# SPDX-License-Identifier: Apache-2.0
"""Command lines for child processes that never run code of the working folder.

``python -m`` and ``python -c`` look for modules in the current folder first, and an empty or relative part of
PYTHONPATH means that folder too. A ``numpy.py`` next to a log must not be imported because the log is read.

- Children that run ttmem itself start isolated (``-I``) as the file ``child_entry.py`` and get this process's path.
- Other interpreters (one that has ttnn or torch) keep PYTHONPATH, because builds from source are found by it, but none
  of its parts that mean the working folder, and no packages of another version of Python.
"""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from ttmem.base import file_sandbox

_START = Path(__file__).with_name("child_entry.py")
_VERSION = r"/python(\d+\.\d+)(?=/|$)"
_CLEAN = f"""import re, sys
own = "%d.%d" % sys.version_info[:2]
sys.path[:] = [place for place in sys.path if place and re.findall({_VERSION!r}, place)[-1:] in ([], [own])]
"""


def ttmem_command(module: str, *words: str, sandbox: file_sandbox.FileSandbox | None = None) -> list[str]:
    """Return the command for ``main(words)`` of a module of ttmem; the child ends when this process ends.

    It inherits the sandbox of this process unless it gets one of its own.
    """
    sandbox = sandbox or file_sandbox.active_sandbox()
    settings = {
        "module": module,
        "path": _path_without_working_folder(),
        "parent": os.getpid(),
        "sandbox": sandbox.to_json() if sandbox else None,
    }
    return [sys.executable, "-I", "-X", "utf8", str(_START), json.dumps(settings), *words]


def probe_command(python: str | Path, code: str) -> list[str]:
    """Return the command that runs a few lines of Python in another interpreter."""
    return [str(python), "-c", _CLEAN + code]


def foreign_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for another interpreter that runs no code of the user."""
    environment = dict(os.environ if base is None else base)
    if "PYTHONPATH" in environment:
        places = environment["PYTHONPATH"].split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(place for place in places if Path(place).is_absolute())
    environment.pop("PYTHONHOME", None)  # of this interpreter, if of any
    return environment


def drop_other_versions(environment: Mapping[str, str], version: str) -> dict[str, str]:
    """Return the environment without packages of other Python versions on the path.

    Their compiled modules do not load, and the others would replace the interpreter's own.
    """
    kept = dict(environment)
    numbers = ".".join(version.split(".")[:2])
    if "PYTHONPATH" in kept and numbers:
        places = kept["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(place for place in places if python_version_of(place) in ("", numbers))
    home = kept.get("PYTHONHOME")
    if home and numbers and not Path(home, "lib", f"python{numbers}").is_dir():
        del kept["PYTHONHOME"]
    return kept


def python_version_of(place: str) -> str:
    """Return the Python version in the name of a folder of packages, or an empty text."""
    found = re.findall(_VERSION, place)
    return found[-1] if found else ""


def _path_without_working_folder() -> list[str]:
    """Return ``sys.path``; the working folder stays only where PYTHONPATH names it as an absolute path."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    named = {os.path.normpath(place) for place in given if Path(place).is_absolute()}
    try:
        here = os.path.realpath(Path.cwd())
    except OSError:  # it was removed
        here = ""
    kept = []
    for place in sys.path:
        is_here = os.path.realpath(place) == here
        if Path(place).is_absolute() and (not is_here or os.path.normpath(place) in named):
            kept.append(place)
    return kept
