# SPDX-License-Identifier: Apache-2.0
"""Scan of a file: host side, kernel side, or both."""

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

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
