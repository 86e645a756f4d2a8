# SPDX-License-Identifier: Apache-2.0
"""Which files a process may open, for verbs that somebody else than the user asks: an agent through the MCP server.

A verb checks nothing of this itself: the interpreter reports every file that is about to be opened (its audit events),
and here it is refused. So a link inside a folder, a header that a file includes or a name inside a list leads nowhere
either. Programs of the user's that a verb runs (``run``, ``test``, a model to trace) are not fenced: they are his.
"""

import errno
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ttmem._home import home_folder

REFUSAL = "is outside of the folders that may be used here"

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_READING = {"os.listdir", "os.scandir"}
_FIRST, _SECOND, _BOTH = slice(0, 1), slice(1, 2), slice(0, 2)
_CHANGING = dict.fromkeys(("os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.chown"), _FIRST)
_CHANGING |= dict.fromkeys(("os.utime", "os.setxattr", "os.removexattr"), _FIRST)
_CHANGING |= {"os.rename": _BOTH, "os.link": _BOTH, "os.symlink": _SECOND}
"""Audit events, and which of their arguments are paths."""
_MODULES = (".py", ".pyc", ".so")
_SYSTEM = re.compile(r"/dev/(null|u?random|shm(/.*)?|tenstorrent(/.*)?)|/proc(/(self|\d+)(/task(/.*)?|/(stat|fd)))?")
_SOFTWARE = ("/usr", "/lib", "/lib64", "/opt", "/sys/devices/system/cpu")

_raised: list["Fence"] = []


@dataclass(frozen=True, slots=True)
class Fence:
    """What may be read and written: all paths are resolved."""

    roots: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    """What the call itself says that it writes: files, or folders with what is in them."""

    @classmethod
    def around(cls, roots: Iterable[str | Path], outputs: Iterable[str | Path] = ()) -> "Fence":
        """Around these folders, wherever their links lead."""
        return cls(tuple(map(os.path.realpath, roots)), tuple(map(os.path.realpath, outputs)))

    def to_json(self) -> dict[str, Any]:
        return {"roots": self.roots, "outputs": self.outputs}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Fence":
        """As ``to_json`` wrote it."""
        return cls(tuple(value["roots"]), tuple(value["outputs"]))

    def holds(self, path: str | Path) -> bool:
        """Whether a path, links and ``..`` resolved, lies below a root or in the store of reports."""
        return _is_below(os.path.realpath(path), (*self.roots, os.path.realpath(home_folder() / "reports")))

    def raise_it(self) -> None:
        """From now on nothing else can be opened in this process; it cannot be lowered again."""
        home = os.path.realpath(home_folder())
        scratch = f"{os.path.realpath(tempfile.gettempdir())}/ttmem-"
        packages = [os.path.realpath(place) for place in (sys.prefix, sys.base_prefix, str(Path(__file__).parent))]
        readable = (*self.roots, *self.outputs, home, *packages, *_SOFTWARE)
        shared = os.environ.get("TTMEM_SHM_DIR")
        readable += (os.path.realpath(shared),) if shared else ()
        modules = tuple(map(os.path.realpath, sys.path))
        writable = (*self.outputs, home)
        beside = tuple(str(Path(place).with_name(".ttmem-")) for place in self.outputs)

        def allows(path: str, *, changes: bool) -> bool:
            if _is_below(path, writable) or path.startswith((*beside, scratch)) or path == os.devnull:
                return True
            if changes:
                return path.endswith(".pyc")
            if _is_below(path, readable) or _SYSTEM.fullmatch(path):
                return True
            return _is_below(path, modules) and (path.endswith(_MODULES) or Path(path).is_dir())

        def check(event: str, arguments: Sequence[Any]) -> None:
            changes, paths = _paths(event, arguments)
            for path in paths:
                resolved = os.path.realpath(path)
                if not allows(resolved, changes=changes):
                    raise PermissionError(errno.EACCES, REFUSAL, os.fsdecode(path))

        _raised.append(self)
        sys.addaudithook(check)


def current() -> Fence | None:
    """The fence of this process, if it has one."""
    return _raised[-1] if _raised else None


def _is_below(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)


def _paths(event: str, arguments: Sequence[Any]) -> tuple[bool, list[str]]:
    """Whether the event changes something, and the paths that it is about; descriptors were opened before."""
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
    """The file of a database that may be named as a URI."""
    text = os.fsdecode(name)
    if text == ":memory:":
        return None
    return unquote(urlsplit(text).path) if text.startswith("file:") else text
