# SPDX-License-Identifier: Apache-2.0
"""Scan files: find them, read them in parallel children, and follow each one's host and kernel code.

Children are started as commands and not through `multiprocessing`, so that a user's script needs no guard.
"""

import gc
import json
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue

from ttmem.base.child_process import ttmem_command
from ttmem.base.errors import BadInputError
from ttmem.base.text_files import read_bytes
from ttmem.circular_buffers.scan.cpp.functions import FileIndex, Function, Helpers, index_of
from ttmem.circular_buffers.scan.cpp.syntax import SourceFile, line_of, parse
from ttmem.circular_buffers.scan.host.calls import HostListener
from ttmem.circular_buffers.scan.host.declarations import Finisher
from ttmem.circular_buffers.scan.kernel import ENTRY, kernel_of
from ttmem.circular_buffers.scan.model import APIS, DESCRIPTOR, Declaration, FileScan, KernelUse, Skipped

FILE_SCOPE = "file scope"
LARGEST_BYTES = 8 << 20
_HOST = re.compile(rb"CircularBufferConfig|CBDescriptor|DataflowBufferSpec|\bcreate_cb\b|\btotal_size\s*=")
_CALLED = re.compile(rb"\b([A-Za-z_]\w*)\s*(?:<[^<>;{}]*>)?\s*\(")
_DECLARES = re.compile(
    rb"CircularBufferConfig\s*[({]|CircularBufferConfig\s+\w+\s*[({]|CBDescriptor\s*[{;]|"
    rb"CBDescriptor\s+\w+|DataflowBufferSpec\s*[{(]|DataflowBufferSpec\s+\w+|\bcreate_cb\s*\(|"
    rb"[.>]total_size\s*="
)
_Followed = tuple[Function, list[Declaration], list[KernelUse]]


def scan_file(path: Path, shown: str, helpers: Helpers) -> FileScan:
    """Everything the file says; whatever goes wrong is the file's, never the scan's."""
    try:
        text = read_bytes(path, most=LARGEST_BYTES, what="a source file")
        if b"\0" not in text[:4096]:
            return scan_text(text, shown, helpers)
        reason = "not a text file"
    except BadInputError as error:
        reason = error.message.removeprefix("cannot be read: ")
    except RecursionError:
        reason = "nested too deeply to follow"
    return FileScan(shown, skipped=Skipped(shown, reason))


def scan_text(text: bytes, shown: str, helpers: Helpers) -> FileScan:
    """Scan a text, as `scan_file` does with a file."""
    is_kernel = bool(ENTRY.search(text))
    is_host = bool(_HOST.search(text) or _call_of(frozenset(helpers)).search(text))
    if not (is_kernel or is_host):
        return FileScan(shown)
    source = parse(shown, text)
    index = index_of(source)
    kernel = kernel_of(index, text) if is_kernel else None
    declarations, sites, uses = _host_side(index, helpers) if is_host else ([], [], [])
    return FileScan(shown, tuple(declarations), tuple(sites), tuple(uses), kernel, broken=source.broken)


@lru_cache(maxsize=4)
def _call_of(names: frozenset[str]) -> re.Pattern[bytes]:
    """Return a pattern for calls of these functions; it matches nothing where there are none."""
    words = "|".join(sorted(map(re.escape, names))) or "(?!)"
    return re.compile(rf"\b(?:{words})\s*[(<]".encode())


def helpers_in(text: bytes, shown: str) -> Helpers:
    """Functions of a header that declare buffers: what their callers in other files really do."""
    if not _DECLARES.search(text):
        return {}
    source = parse(shown, text)
    found: Helpers = {}
    for function in index_of(source).all_functions():
        if _DECLARES.search(_body(source, function)) and function.name not in APIS:
            found.setdefault(function.name, []).append(function)
    return found


def _body(source: SourceFile, function: Function) -> bytes:
    return source.text[function.body.start_byte : function.body.end_byte]


def _host_side(index: FileIndex, helpers: Helpers) -> tuple[list[Declaration], list[Declaration], list[KernelUse]]:
    listener = HostListener(index, helpers)
    finisher = Finisher(index.source.path)
    relevant = _relevant(index, helpers)
    sites: dict[tuple[str, int, int], Declaration] = {}
    followed: list[_Followed] = []
    for function in relevant:
        drafts = listener.follow([function.body], function)
        made, used = finisher.split_drafts(drafts, _title(function, relevant))
        followed.append((function, made, used))
        for declaration in made:
            own = not declaration.trail and declaration.site[0] == index.source.path
            if own or (declaration.trail and all(name == "lambda" for name, _ in declaration.trail)):
                sites.setdefault(declaration.site, declaration)
    # A fragment without any function around it is a program too.
    text = index.source.text
    fragment = any(_DECLARES.search(text, node.start_byte, node.end_byte) for node in index.loose)
    declarations, uses = finisher.split_drafts(listener.follow(index.loose) if fragment else [], FILE_SCOPE)
    for declaration in declarations:
        sites.setdefault(declaration.site, declaration)
    for _, made, used in _programs(followed):
        declarations += [one for one in made if one.total is not None or one.api != DESCRIPTOR]
        uses += used
    return declarations, list(sites.values()), uses


def _programs(followed: list[_Followed]) -> list[_Followed]:
    """Functions that build programs; one that another calls is part of that one's program, where it was followed."""
    called = {name for function, made, _ in followed for one in made for name, _ in one.trail if name != function.name}
    roots = [one for one in followed if one[0].name not in called]
    covered = {declaration.site for _, made, _ in roots for declaration in made}
    for one in followed:
        if one[0].name in called and any(declaration.site not in covered for declaration in one[1]):
            roots.append(one)
            covered.update(declaration.site for declaration in one[1])
    return sorted(roots, key=lambda one: one[0].body.start_byte)


def _title(function: Function, functions: Iterable[Function]) -> str:
    """A function's name, with its line where an overload has the same."""
    same = [other for other in functions if other.title == function.title]
    return function.title if len(same) == 1 else f"{function.title}:{line_of(function.body)}"


def _relevant(index: FileIndex, helpers: Helpers) -> list[Function]:
    """The functions that declare buffers, themselves or through others of the file."""
    calls: dict[Function, set[str]] = {}
    wanted: set[Function] = set()
    for function in index.all_functions():
        body = _body(index.source, function)
        calls[function] = {name.decode() for name in _CALLED.findall(body)}
        if _DECLARES.search(body) or (calls[function] & helpers.keys()):
            wanted.add(function)
    while True:
        names = {function.name for function in wanted}
        more = {function for function, called in calls.items() if called & names}
        if more <= wanted:
            return [function for function in calls if function in wanted]
        wanted |= more


SUFFIXES = frozenset({".cpp", ".cc", ".cxx", ".c", ".hpp", ".h", ".hh", ".hxx", ".inl", ".ipp"})
_HEADERS = frozenset({".hpp", ".h", ".hh", ".hxx", ".inl", ".ipp"})
_SKIPPED_FOLDERS = frozenset({".git", "build", "node_modules", "third_party", ".venv", "__pycache__"})
_BATCH = 24
_WORTH_CHILDREN = 96
DEEPEST = 6_000
Progress = Callable[[int, int], None]


def find_files(path: Path) -> list[Path]:
    """C++ sources below a folder, in a stable order; a file is taken whatever it is called."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise BadInputError(f"'{path}' does not exist", hint="give a C++ file or a folder of them")
    found = []
    for folder, names, files in os.walk(path):
        names[:] = sorted(name for name in names if name not in _SKIPPED_FOLDERS)
        found += [Path(folder, name) for name in sorted(files) if Path(name).suffix.lower() in SUFFIXES]
    if not found:
        raise BadInputError(f"no C++ file in '{path}'", hint=f"files ending in {', '.join(sorted(SUFFIXES))} are read")
    return found


def scan_files(paths: Sequence[Path], *, jobs: int | None = None, progress: Progress | None = None) -> list[FileScan]:
    """Scan the files, in order."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = jobs or (min(cores, 8) if len(paths) >= _WORTH_CHILDREN else 1)
    headers = [str(path) for path in paths if path.suffix.lower() in _HEADERS]
    batches = [paths[at : at + _BATCH] for at in range(0, len(paths), _BATCH)]
    workers = min(workers, len(batches))
    found: list[FileScan] = []
    # Progress is in bytes: files differ too much in size to count them.
    sizes = [sum(map(_size, batch)) for batch in batches] if progress else []
    for scans in _here(batches, headers) if workers <= 1 else _side_by_side(batches, headers, workers):
        found += scans
        if progress:
            progress(sum(sizes[: -(-len(found) // _BATCH)]), sum(sizes))
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_helpers(headers: Sequence[str]) -> Helpers:
    """Functions of headers that declare buffers, by name."""
    helpers: Helpers = {}
    for header in headers:
        with suppress(BadInputError, RecursionError):
            for name, functions in helpers_in(read_bytes(Path(header)), header).items():
                helpers.setdefault(name, []).extend(functions)
    return helpers


def _here(batches: Sequence[Sequence[Path]], headers: Sequence[str]) -> Iterator[list[FileScan]]:
    """Generated code nests deeper than Python's default allows."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEPEST))
    try:
        helpers = read_helpers(headers)
        for batch in batches:
            yield [scan_file(path, str(path), helpers) for path in batch]
    finally:
        sys.setrecursionlimit(limit)


def _side_by_side(batches: Sequence[Sequence[Path]], headers: Sequence[str], workers: int) -> Iterator[list[FileScan]]:
    """Each child takes the next batch when it has answered the last one; one that dies costs its batch a second try."""
    from concurrent.futures import ThreadPoolExecutor

    children = [_Child(headers) for _ in range(workers)]
    idle: SimpleQueue[_Child] = SimpleQueue()
    for child in children:
        idle.put(child)
    is_over = threading.Event()

    def scans_of(batch: Sequence[Path]) -> list[FileScan]:
        child = idle.get()
        try:
            answer = child.ask(batch)
            if answer is None and not is_over.is_set():  # where all is over, the child was closed
                child.close()
                child.start()
                answer = [_alone(path, headers) for path in batch]
            return answer or []
        finally:
            idle.put(child)

    with ThreadPoolExecutor(workers) as pool:
        try:
            yield from pool.map(scans_of, batches)
        finally:
            is_over.set()
            for child in children:
                child.close()


def _alone(path: Path, headers: Sequence[str]) -> FileScan:
    """A batch's child died: each of its files gets a child of its own, so that one file cannot take others with it."""
    with closing(_Child(headers)) as child:
        answer = child.ask([path])
    return answer[0] if answer else FileScan(str(path), skipped=Skipped(str(path), "the reader died on it"))


class _Child:
    """A process that scans batches of files: JSON lines in, pickled lists out."""

    def __init__(self, headers: Sequence[str]) -> None:
        self._headers = headers
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            ttmem_command("ttmem.circular_buffers.scan.files"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._send(self._headers)

    def _send(self, paths: Sequence[str]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(list(paths)).encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, batch: Sequence[Path]) -> list[FileScan] | None:
        """None when the child died on it."""
        assert self._process.stdout is not None
        try:
            self._send([str(path) for path in batch])
            answer: list[FileScan] = pickle.load(self._process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            return None
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()


def main(_: Sequence[str]) -> int:
    """Until stdin ends."""
    sys.setrecursionlimit(DEEPEST)
    gc.freeze()
    helpers = read_helpers(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        scans = [scan_file(Path(path), path, helpers) for path in json.loads(line)]
        sys.stdout.buffer.write(pickle.dumps(scans, protocol=5))
        sys.stdout.buffer.flush()
    return 0
