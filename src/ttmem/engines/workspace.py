# SPDX-License-Identifier: Apache-2.0
"""Folders and variables with which ttnn opens a mock board and leaves nothing behind.

Kept under ``$TTMEM_HOME/cache``: the runtime root (links into the package and the stub compiler) and the kernel cache,
which saves most of the time of a first call. Everything else is in a folder of one process that is removed with it.
"""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttmem.base.atomic_files import name_full_disk
from ttmem.base.child_process import drop_other_versions, foreign_environment
from ttmem.base.errors import BadInputError, MissingPartError
from ttmem.base.home import home_folder
from ttmem.engines import mock_board
from ttmem.engines.family import ProcessFamily
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.mock_board import build_cluster_descriptor, compute_chip_ids
from ttmem.hardware import BOARDS, Board

_UNWANTED_ON_MOCK = (
    "TT_METAL_SIMULATOR",
    "TT_METAL_SIMULATOR_HOME",
    "TT_METAL_SLOW_DISPATCH_MODE",
    "TT_METAL_EMULE_MODE",
    "TT_MESH_GRAPH_DESC_PATH",
    "TT_VISIBLE_DEVICES",
    "ARCH_NAME",
)
"""Variables for a real machine that would change the mock."""

_START = Path(__file__).parent / "worker" / "start.py"
_OF_PROJECTS = ("TT_METAL_HOME", "TT_METAL_RUNTIME_ROOT")
_OF_USERS = ("script", "pytest_plugin")
"""Jobs that run the user's code, which may import neighbouring files."""
_QUIET = {"TT_LOGGER_LEVEL": "off", "TT_METAL_LOGGER_LEVEL": "FATAL", "LOGURU_LEVEL": "ERROR"}
_MARK = "TT_METAL_LOGS_PATH"
_CARDS = Path("/dev/tenstorrent")
_SHARED_MEMORY = Path("/dev/shm")


class Worker(subprocess.Popen[bytes]):
    family: ProcessFamily | None = None
    """All processes that a user's program starts."""

    def kill_family(self) -> None:
        """Kill it and everything that it started, also in other sessions and below other parents."""
        with contextlib.suppress(ProcessLookupError):
            self.kill()
        if self.family:
            self.family.end()


@dataclass(frozen=True, slots=True)
class Workspace:
    python: str
    board: Board | None
    """None on a card: the board is the one plugged in."""
    variables: dict[str, str]
    unset: tuple[str, ...]
    folder: Path
    """Private to the process and removed afterwards."""
    version: str
    closing: contextlib.ExitStack
    """Left before the folder is removed."""
    leftovers: tuple[Path, ...] = ()
    """Removed at the end."""

    @property
    def user_variables(self) -> dict[str, str | None]:
        """The user's values of variables through which projects find their files; the library alone gets ours."""
        return {name: os.environ.get(name) for name in _OF_PROJECTS if name in self.variables}

    def build_environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the child's environment: the user's, with ours on top. A log level set by the user is kept, packages
        of other Pythons are not."""
        base = drop_other_versions(base, self.version)
        kept = {name: base[name] for name in _QUIET if name in base}
        inherited = {name: value for name, value in base.items() if name not in self.unset}
        return {**inherited, **self.variables, **kept}

    def start(self, job: str, settings: dict[str, Any], words: Sequence[str] = (), **options: Any) -> "Worker":
        """Start a worker at a job; ``options`` are those of ``Popen``. A user's processes end with the workspace."""
        command = [self.python, str(_START), job, json.dumps(settings), *words]
        if job not in _OF_USERS:
            return Worker(command, env=self.build_environment(foreign_environment()), **options)
        family = self.closing.enter_context(contextlib.closing(ProcessFamily(f"{_MARK}={self.folder}", self.leftovers)))
        worker = Worker(command, env=self.build_environment(os.environ), **options)
        worker.family = family
        if options.get("start_new_session"):
            family.has_session(worker.pid)
        return worker


@contextmanager
def open_workspace(
    interpreter: Interpreter, *, board: str | None, card: bool = False, counters: bool = False
) -> Iterator[Workspace]:
    """Provide all that a process needs to open the board (or the card), and remove its private part afterwards.

    With ``counters`` the library publishes its memory use in shared memory, for ``ttmem live``, under chips of its own.
    """
    if card and not find_cards():
        raise MissingPartError(
            "no Tenstorrent card in this machine", where=str(_CARDS), hint="leave --card out to use a mock board"
        )
    folder, version = Path(tempfile.mkdtemp(prefix="ttmem-")), interpreter.python_version
    published: list[Path] = []
    # Where the library's leftovers go: reports, MPI session folders, driver folders.
    variables = {_MARK: str(folder), "TMPDIR": str(folder), "OMPI_MCA_btl": "self", **_QUIET}
    closing = contextlib.ExitStack()
    try:
        if card:
            unset: tuple[str, ...] = ("TT_METAL_MOCK_CLUSTER_DESC_PATH",)
            yield Workspace(interpreter.path, None, variables, unset, folder, version, closing, (folder,))
        else:
            mocked = BOARDS.find(board or "n150")
            number = secrets.randbits(32) if counters else 0
            variables |= _build_mock_variables(interpreter, mocked, folder, number)
            published = [
                _SHARED_MEMORY / f"tt_device_{chip}_memory" for chip in compute_chip_ids(mocked, number).values()
            ]
            unset, leftovers = _UNWANTED_ON_MOCK, (folder, *published)
            yield Workspace(interpreter.path, mocked, variables, unset, folder, version, closing, leftovers)
    finally:
        closing.close()
        shutil.rmtree(folder, ignore_errors=True)
        for region in published if counters else ():
            with contextlib.suppress(OSError):
                region.unlink(missing_ok=True)


def find_cards() -> list[str]:
    with contextlib.suppress(OSError):
        return sorted(str(path) for path in _CARDS.iterdir() if path.is_char_device())
    return []


def _build_mock_variables(interpreter: Interpreter, board: Board, folder: Path, number: int) -> dict[str, str]:
    described = folder / f"{board.name}.yaml"
    with name_full_disk(described):
        described.write_text(build_cluster_descriptor(board, number))
    cache = find_cache_folder(interpreter)
    root = make_runtime_root(interpreter, cache)
    return {
        "TT_METAL_RUNTIME_ROOT": str(root),
        "TT_METAL_HOME": str(root),  # releases before the variable above
        "TT_METAL_CACHE": str(cache / "kernels"),
        "TT_METAL_MOCK_CLUSTER_DESC_PATH": str(described),
        # A mesh has a thread per chip. A fork does not have them and would wait for them for ever.
        "TT_MESH_PASS_THROUGH_THREAD_POOL": "1",
        **({} if number else {"TT_METAL_SHM_TRACKING_DISABLED": "1"}),
    }


def find_cache_folder(interpreter: Interpreter) -> Path:
    """Return the cache folder of a ttnn; a home that cannot be written to only costs speed."""
    key = hashlib.sha256(interpreter.package.encode()).hexdigest()[:8]
    name = f"ttnn-{interpreter.ttnn_version or 'unknown'}-{key}"
    for parent in (home_folder() / "cache", Path(tempfile.gettempdir()) / f"ttmem-cache-{os.getuid()}"):
        with contextlib.suppress(OSError):
            (parent / name).mkdir(parents=True, exist_ok=True)
            if os.access(parent / name, os.W_OK):
                return parent / name
    raise BadInputError("no place for a kernel cache", hint="set a folder that ttmem may write to: TTMEM_HOME=FOLDER")


def make_runtime_root(interpreter: Interpreter, cache: Path) -> Path:
    """Make a root in which the library finds its own files and our compiler. Several processes may do so at once."""
    root = cache / "root"
    compiler = root / "runtime" / "sfpi" / "compiler" / "bin" / "riscv-tt-elf-g++"
    compiler.parent.mkdir(parents=True, exist_ok=True)
    _write_executable(compiler, mock_board.build_stub_compiler())
    # A wheel carries the sources inside the package, a build from source has them two folders up.
    package = Path(interpreter.package)
    source = package if (package / "tt_metal").is_dir() else package.parent.parent
    for name in ("tt_metal", "ttnn", "runtime/hw"):
        link, target = root / name, source / name
        if not target.exists():
            raise MissingPartError(f"ttnn's own files are missing: {target}", hint="install ttnn again")
        if not link.is_symlink():
            with contextlib.suppress(FileExistsError):
                link.symlink_to(target)
    return root


def _write_executable(path: Path, text: str) -> None:
    if path.is_file() and path.read_text() == text and os.access(path, os.X_OK):
        return
    fresh = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    with name_full_disk(path):
        fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.replace(path)
