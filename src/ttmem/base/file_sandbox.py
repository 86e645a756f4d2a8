# SPDX-License-Identifier: Apache-2.0
"""A limit on the files and programs of a process, for verbs that an agent calls through the MCP server.

The interpreter raises an audit event before it opens a file or starts a program; the sandbox refuses it there. So a
link inside a folder, a header that a file includes or a name inside a list cannot lead outside either. No audit event
covers what the user's interpreters are given to run (a script, a model to trace): ``refuse_outside`` checks that where
such a program is started. The program itself runs without a sandbox.
"""

import errno
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ttmem.base.errors import BadInputError
from ttmem.base.home import home_folder

REFUSAL = "is outside of the folders that may be used here"
REMEDY = "name something below them, or start the server with --root FOLDER"
NO_PROGRAM = "may not be started here: only the interpreters that the user has chosen"

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_READING = {"os.listdir", "os.scandir"}
_FIRST, _SECOND, _BOTH = slice(0, 1), slice(1, 2), slice(0, 2)
_CHANGING = dict.fromkeys(("os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.chown"), _FIRST)
_CHANGING |= dict.fromkeys(("os.utime", "os.setxattr", "os.removexattr"), _FIRST)
_CHANGING |= {"os.rename": _BOTH, "os.link": _BOTH, "os.symlink": _SECOND}
"""Audit events, and which of their arguments are paths."""
_STARTING = {"subprocess.Popen", "os.exec", "os.posix_spawn"}
_SHELL = {"os.system", "os.startfile", "pty.spawn"}
_INTERPRETERS = ("TTMEM_TTNN_PYTHON", "TTMEM_TORCH_PYTHON")
_MODULES = (".py", ".pyc", ".so")
_SYSTEM = re.compile(r"/dev/(null|u?random|shm(/.*)?|tenstorrent(/.*)?)|/proc(/(self|\d+)(/task(/.*)?|/(stat|fd)))?")
_SOFTWARE = ("/usr", "/lib", "/lib64", "/opt", "/sys/devices/system/cpu")

_active: list["FileSandbox"] = []


@dataclass(frozen=True, slots=True)
class FileSandbox:
    """The folders that may be read and the outputs that may be written; all paths are resolved."""

    roots: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    """Files and folders that the call names as its outputs."""

    @classmethod
    def around_folders(cls, roots: Iterable[str | Path], outputs: Iterable[str | Path] = ()) -> "FileSandbox":
        """Return a sandbox of these folders, with their links resolved."""
        return cls(tuple(map(os.path.realpath, roots)), tuple(map(os.path.realpath, outputs)))

    def to_json(self) -> dict[str, Any]:
        return {"roots": self.roots, "outputs": self.outputs}

    @classmethod
    def decode(cls, value: dict[str, Any]) -> "FileSandbox":
        """Inverse of ``to_json``."""
        return cls(tuple(value["roots"]), tuple(value["outputs"]))

    def allows_path(self, path: str | Path) -> bool:
        """Return True if the resolved path is below a root or in the store of reports."""
        return _is_below(os.path.realpath(path), (*self.roots, os.path.realpath(home_folder() / "reports")))

    def activate(self) -> None:
        """Refuse everything else in this process from now on; this cannot be undone."""
        home = os.path.realpath(home_folder())
        scratch = f"{os.path.realpath(tempfile.gettempdir())}/ttmem-"
        packages = [os.path.realpath(place) for place in (sys.prefix, sys.base_prefix, str(Path(__file__).parents[1]))]
        readable = (*self.roots, *self.outputs, home, *packages, *_SOFTWARE)
        shared = os.environ.get("TTMEM_SHM_DIR")
        readable += (os.path.realpath(shared),) if shared else ()
        modules = tuple(map(os.path.realpath, sys.path))
        writable = (*self.outputs, home)
        beside = tuple(str(Path(place).with_name(".ttmem-")) for place in self.outputs)
        programs = _allowed_programs()

        def allows(path: str, *, changes: bool) -> bool:
            if _is_below(path, writable) or path.startswith((*beside, scratch)) or path == os.devnull:
                return True
            if changes:
                return path.endswith(".pyc")
            if _is_below(path, readable) or _SYSTEM.fullmatch(path):
                return True
            return _is_below(path, modules) and (path.endswith(_MODULES) or Path(path).is_dir())

        def check(event: str, arguments: Sequence[Any]) -> None:
            if event in _SHELL or (event in _STARTING and not _may_start(arguments[0], programs)):
                raise PermissionError(errno.EACCES, NO_PROGRAM, str(arguments[0]))
            changes, paths = _paths(event, arguments)
            for path in paths:
                resolved = os.path.realpath(path)
                if not allows(resolved, changes=changes):
                    raise PermissionError(errno.EACCES, REFUSAL, os.fsdecode(path))

        _active.append(self)
        sys.addaudithook(check)


def active_sandbox() -> FileSandbox | None:
    """Return the sandbox of this process, if it has one."""
    return _active[-1] if _active else None


def refuse_outside(path: str | Path) -> None:
    """In a sandbox, refuse to run a path that is not below a root."""
    sandbox = active_sandbox()
    if sandbox is not None and not _is_below(os.path.realpath(path), sandbox.roots):
        raise BadInputError(REFUSAL, where=str(path), hint=REMEDY)


def _allowed_programs() -> set[str]:
    """This interpreter and those that the user has named."""
    return {_place_of(name) for name in (sys.executable, *map(os.environ.get, _INTERPRETERS)) if name}


def _may_start(program: Any, named: set[str]) -> bool:
    """Return True for a program that the user has named or installed.

    Its own path counts, not the target of a link: the interpreter of an environment is a link.
    """
    path, home = _place_of(os.fsdecode(program)), os.path.normpath(home_folder())
    if path in named or (_is_below(path, [home]) and not _is_below(path, [f"{home}/reports"])):
        return True
    folders = [os.path.normpath(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder[:1] == "/"]
    return str(Path(path).parent) in folders


def _place_of(program: str) -> str:
    return os.path.normpath(Path.cwd() / (shutil.which(program) or program))


def _is_below(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)


def _paths(event: str, arguments: Sequence[Any]) -> tuple[bool, list[str]]:
    """Return whether the event changes files, and its paths. Descriptors were checked when they were opened."""
    found: Sequence[Any] = ()
    changes = False
    if event == "open":
        found = arguments[:1]
        changes = bool(arguments[2] & _WRITING)
    elif event == "sqlite3.connect":
        found = [_database(arguments[0])]
    elif event in _READING:
        found = arguments[:1]
    elif event in _CHANGING:
        found, changes = arguments[_CHANGING[event]], True
    return changes, [os.fsdecode(path) for path in found if isinstance(path, str | bytes | os.PathLike)]


def _database(name: Any) -> Any:
    """Return the file of a database, whose name may be a URI."""
    text = os.fsdecode(name)
    if text == ":memory:":
        return None
    return unquote(urlsplit(text).path) if text.startswith("file:") else text
