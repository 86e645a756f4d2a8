# SPDX-License-Identifier: Apache-2.0
"""Which operation of the user's a text is about: a call of ttnn, from logs, tracebacks, backtraces and code.

The plainest sign counts: the runtime's own log line, ttnn's decorator in a traceback, the Python line of a traceback,
the outermost call in a backtrace, the device operation or prim below it, and last the only call that the text mentions.
Template arguments name configurations and types, so they are removed first; a name that was cut names nothing.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache, partial

from ttmem.explain.facts import facts, pattern

_pattern = partial(pattern, "context")
_INTERNAL = frozenset({"operations", "device_operation", "decorators", "detail", "core", "graph", "distributed"})
_MOST_NESTED = 40
"""How deep template arguments are removed; deeper than any print of a compiler's."""


def operation_in(text: str, at: int = 0) -> str:
    """The call of ttnn (``ttnn.transformer.x``) that a text is about; ``at`` is where its failure begins. May be empty.

    A backtrace follows its message and a Python traceback precedes it, so each is looked for on that side first.
    """
    before, after = text[:at], text[at:]
    if found := _pattern("executing").findall(text):
        return str(found[-1])
    if found := _pattern("python").findall(text):
        return str(found[-1])
    for calls in (*reversed(_tracebacks(before)), *_tracebacks(after)):
        if call := _of_code(calls):
            return call
    for kind in (_api_of, _device_operation_of):
        for frames in (*_backtraces(after), *reversed(_backtraces(before))):
            if named := list(filter(None, map(kind, frames))):
                return named[-1] if kind is _api_of else named[0]
    if named := [call for call in map(call_of_device_operation, _pattern("device").findall(text)) if call]:
        return named[0]
    return _mentioned(text)


def family_of(operation: str, text: str = "") -> str:
    """The kind of operations with the same advice; from the backtrace's device operations where no call is named."""
    names = [operation] if operation else [_snake(name) for name in _pattern("device").findall(text)]
    if not operation:
        names += list(_pattern("prim").findall(text))
    for name in names:
        last = name.rpartition(".")[2].lower()
        for family, expression in _families():
            if expression.search(last):
                return family
    return ""


def call_of_device_operation(name: str) -> str:
    """``SdpaDecodeDeviceOperation`` or ``sdpa_decode`` as the call of ttnn that runs it; empty where several do."""
    key = _key(re.sub(r"(?:DeviceOperation|Operation|DeviceOp|Op)$", "", name))
    calls, device_operations = _names()
    return device_operations[key] if key in device_operations else calls.get(key, "")


@cache
def _names() -> tuple[dict[str, str], dict[str, str]]:
    """Calls by their last name without underscores, the shortest path first; device operations likewise."""
    data = facts("operations")
    calls: dict[str, str] = {}
    for space in sorted(data["calls"], key=lambda space: space.count(".")):
        for name in data["calls"][space].split():
            calls.setdefault(_key(name), f"{space}.{name}")
    return calls, {_key(name): call for name, call in data["device_operations"].items()}


@cache
def _calls() -> frozenset[str]:
    return frozenset(
        f"{space}.{name}" for space, names in facts("operations")["calls"].items() for name in names.split()
    )


@cache
def _families() -> list[tuple[str, re.Pattern[str]]]:
    return [(name, re.compile(words)) for name, words in facts("operations")["families"].items()]


@cache
def _bookkeeping() -> re.Pattern[str]:
    return re.compile(f"ttnn\\.(?:{facts('operations')['bookkeeping']['words']})".replace("\n", ""))


def _key(name: str) -> str:
    return name.replace("_", "").lower()


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _tracebacks(text: str) -> list[list[str]]:
    """The lines of code that Python's or pytest's tracebacks show as running, one list for each traceback."""
    found: list[list[str]] = []
    begins, is_running = True, False
    for line in text.split("\n"):
        if "Traceback (most recent call last)" in line or _pattern("traceback_ends").search(line):
            begins, is_running = True, False
            continue
        if is_running or _pattern("pytest_running").search(line):
            if begins:
                found.append([])
                begins = False
            found[-1].append(line)
        is_running = bool(_pattern("traceback_site").search(line))
    return found


def _of_code(lines: Sequence[str]) -> str:
    """The call of ttnn in the innermost line that has one, a computation rather than a call that moves its data."""
    for line in reversed(lines):
        if calls := [f"ttnn.{call}" for call in _pattern("call").findall(line)]:
            return next((call for call in calls if not _bookkeeping().fullmatch(call)), calls[0])
    return ""


def _backtraces(text: str) -> list[list[str]]:
    """Names of functions in C++ backtraces without template arguments, innermost first, a list for each backtrace."""
    found: list[list[str]] = []
    begins = True
    for line in text.split("\n"):
        if "ttnn" not in line:
            begins = begins or "backtrace:" in line
            continue
        if "backtrace:" in line:
            begins = True
        if name := _function(line):
            if begins:
                found.append([])
                begins = False
            found[-1].append(name)
    return found


def _function(line: str) -> str:
    """``ttnn::transformer::x`` of a frame, demangled or not; empty where the line is no frame or its name was cut."""
    if mangled := _pattern("mangled").search(line):
        return "::".join(_demangled(mangled[1]))
    launched = _pattern("launched").search(line)
    for _ in range(_MOST_NESTED):
        shorter = re.sub(r"<[^<>]*>", "", line)
        if shorter == line:
            break
        line = shorter
    found = _pattern("function").search(line.partition("<")[0])
    name = found[1] if found else ""
    if found and not found[2] and f"ttnn.{name[6:].replace('::', '.')}" not in _calls() and not _is_prim(name):
        return ""  # the line ends within the name, or right after it
    return f"{name}::{launched[1]}" if launched and name else name


def _demangled(text: str) -> Iterator[str]:
    """The parts of a nested name as compilers mangle it: ``4ttnn4prim7softmaxE``."""
    while match := re.match(r"(\d{1,3})([A-Za-z_]\w*)", text):
        size = int(match[1])
        if size > len(match[2]):
            return
        yield match[2][:size]
        text = match[2][size:]


def _is_prim(name: str) -> bool:
    return "::prim::" in name


def _api_of(function: str) -> str:
    spaces = function.split("::")[1:]
    if not spaces or spaces[0] in _INTERNAL or "prim" in spaces or "detail" in spaces:
        return ""
    call = "ttnn." + ".".join(spaces)
    is_newer = spaces[0] in ("experimental", "transformer") and len(spaces) > 1 and spaces[-1].islower()
    return call if call in _calls() or is_newer else ""


def _device_operation_of(function: str) -> str:
    """From ``ttnn::prim::x``, ``ttnn::...::XDeviceOperation::...`` or, in older builds, ``ExecuteX::invoke``."""
    spaces = function.split("::")
    for part in reversed(spaces):
        if re.search(r"(?:Operation|Op)$", part) and (call := call_of_device_operation(part)):
            return call
    if spaces[-1] == "invoke":
        return call_of_device_operation(spaces[-2].removeprefix("Execute"))
    return call_of_device_operation(spaces[spaces.index("prim") + 1]) if "prim" in spaces[:-1] else ""


def _mentioned(text: str) -> str:
    """The only computation that a text calls or mentions."""
    for kind in ("call", "mention"):
        calls = {f"ttnn.{call}" for call in _pattern(kind).findall(text)}
        if kind == "mention":
            calls &= _calls()
        computed = {call for call in calls if not _bookkeeping().fullmatch(call)}
        if computed:
            return computed.pop() if len(computed) == 1 else ""
    return ""
