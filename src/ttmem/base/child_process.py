# SPDX-License-Identifier: Apache-2.0
"""How children are started, in one place: no code of the working folder ever runs in them, on any Python.

``python -m`` and ``python -c`` look for modules in the current folder first, and an empty or relative part of
PYTHONPATH means that folder too. A ``numpy.py`` that lies beside a log must not be imported because the log is read.

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


def own_command(module: str, *words: str, fence: file_sandbox.Fence | None = None) -> list[str]:
    """What starts ``main(words)`` of a module of ttmem; the child ends when this process does, however that ends.

    It has the fence of this process unless it gets one of its own.
    """
    fence = fence or file_sandbox.current()
    settings = {
        "module": module,
        "path": _path_without_working_folder(),
        "parent": os.getpid(),
        "fence": fence.to_json() if fence else None,
    }
    return [sys.executable, "-I", "-X", "utf8", str(_START), json.dumps(settings), *words]


def probe_command(python: str | Path, code: str) -> list[str]:
    """What asks another interpreter something in a few lines of Python."""
    return [str(python), "-c", _CLEAN + code]


def foreign_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for another interpreter that runs no code of the user's."""
    environment = dict(os.environ if base is None else base)
    if "PYTHONPATH" in environment:
        places = environment["PYTHONPATH"].split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(place for place in places if Path(place).is_absolute())
    environment.pop("PYTHONHOME", None)  # of this interpreter, if of any
    return environment


def without_other_versions(environment: Mapping[str, str], version: str) -> dict[str, str]:
    """Without packages of other Pythons than ``version`` on the path: what is compiled there does not load, and what is
    not takes the place of the interpreter's own."""
    kept = dict(environment)
    numbers = ".".join(version.split(".")[:2])
    if "PYTHONPATH" in kept and numbers:
        places = kept["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(place for place in places if version_of(place) in ("", numbers))
    home = kept.get("PYTHONHOME")
    if home and numbers and not Path(home, "lib", f"python{numbers}").is_dir():
        del kept["PYTHONHOME"]
    return kept


def version_of(place: str) -> str:
    """The version of Python that a folder of packages is for, empty when its name does not tell."""
    found = re.findall(_VERSION, place)
    return found[-1] if found else ""


def _path_without_working_folder() -> list[str]:
    """This process's ``sys.path``; the working folder stays only where the environment names it in full."""
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
