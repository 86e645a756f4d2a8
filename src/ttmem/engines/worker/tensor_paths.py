# SPDX-License-Identifier: Apache-2.0
"""Paths of tensors in the program: ``model.layers[3].attention.wqkv``.

The program's objects are searched breadth first from the variables of its functions and modules, so that the shortest
path wins. Outer functions come before those that they call, whose names are valid for one call only. Objects with
attributes come before lists and dictionaries, which often repeat their content; loop variables come last:
``layer.wqkv`` means ``layers[3].wqkv`` in one turn only.
"""

import dis
import functools
import inspect
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, NamedTuple

_ATOMS = (str, bytes, bytearray, int, float, complex, bool, type(None), type, types.ModuleType, types.CodeType)
_FOREIGN = ("torch", "numpy", "ttnn", "transformers", "builtins", "logging", "threading", "_io", "pathlib", "pytest")
"""Packages whose objects are not searched; user classes derived from theirs are the user's."""
_MOST_OBJECTS = 300_000
_MOST_SECONDS = 1.0
_SHARE_OF_FRAMES = 0.8
"""Share of objects and seconds for each frame; the rest is for frames and modules after one with too many objects."""
_MOST_ITEMS = 20_000
_LONGEST_PATH, _SHOWN_END = 240, 80
_ASKS_FOR_LOCALS = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"})
_loops_of_modules: dict[str, frozenset[str]] = {}
"""By file, for modules seen running: a finished module has no code any more."""


class ReachableTensor(NamedTuple):
    tensor: Any
    path: str
    is_lasting: bool
    """Kept by an object, a list or a dictionary, not only by a variable."""


def find_tensors(
    tensor_type: type, is_users: Callable[[str], bool], frame: types.FrameType | None
) -> Iterator[ReachableTensor]:
    """Yield the tensors that the program can reach from here, each object once."""
    objects: deque[tuple[Any, str, int]] = deque()
    containers: deque[tuple[Any, str, int]] = deque()
    seen: set[int] = set()
    ends = monotonic() + _MOST_SECONDS

    def add(value: Any, path: str, depth: int) -> Iterator[ReachableTensor]:
        if isinstance(value, _ATOMS) or id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, tensor_type):
            yield ReachableTensor(value, path, depth > 0)
        elif isinstance(value, (list, tuple, dict, set, frozenset, deque, types.FunctionType)):
            containers.append((value, path, depth))
        elif (
            isinstance(value, (types.MethodType, functools.partial))
            or type(value).__module__.partition(".")[0] not in _FOREIGN
        ):
            objects.append((value, path, depth))

    def walk(share: float) -> Iterator[ReachableTensor]:
        most, until = _MOST_OBJECTS * share, ends - _MOST_SECONDS * (1 - share)
        while (objects or containers) and len(seen) < most and monotonic() < until:
            value, path, depth = (objects or containers).popleft()
            for part, inner in _list_parts(value):
                yield from add(inner, _shorten(f"{path}{part}", depth + 1), depth + 1)

    passing: list[tuple[str, Any]] = []
    for variables, of_loops in _find_roots(frame, is_users):
        for name, value in list(variables.items()):
            if name in of_loops and not isinstance(value, tensor_type):
                passing.append((name, value))
            elif isinstance(name, str) and not name.startswith("__"):
                yield from add(value, name, 0)
        yield from walk(_SHARE_OF_FRAMES)
    yield from walk(1.0)
    for name, value in passing:
        yield from add(value, name, 0)
    yield from walk(1.0)


def _shorten(path: str, depth: int) -> str:
    """Replace the middle of a very long path by its depth."""
    if len(path) <= _LONGEST_PATH:
        return path
    return f"{path[:_SHOWN_END]}...{depth}...{path[-_SHOWN_END:]}"


def _find_roots(
    frame: types.FrameType | None, is_users: Callable[[str], bool]
) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:
    """Yield the variables of running functions, outermost first, then of the program's modules, each with the names of
    its loop variables."""
    frames: list[types.FrameType] = []
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    for one in reversed(frames):
        of_loops = _find_loop_variables(one.f_code)
        if one.f_code.co_name == "<module>":
            _loops_of_modules[one.f_code.co_filename] = of_loops
            yield one.f_globals, of_loops
        else:
            yield _copy_locals(one), of_loops
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and is_users(file):
            yield vars(module), _loops_of_modules.get(file, frozenset())


@functools.lru_cache(maxsize=1024)
def _find_loop_variables(code: types.CodeType) -> frozenset[str]:
    """Return the names that ``for`` binds, also in tuples."""
    names: set[str] = set()
    awaited = 0
    for instruction in dis.get_instructions(code):
        if instruction.opname == "FOR_ITER":
            awaited = 1
        elif awaited and instruction.opname == "UNPACK_SEQUENCE":
            awaited += (instruction.arg or 1) - 1
        elif awaited and instruction.opname.startswith("STORE_"):
            names.add(str(instruction.argval))
            awaited -= 1
        else:
            awaited = 0
    return frozenset(names)


def _copy_locals(frame: types.FrameType) -> dict[str, Any]:
    """Copy a frame's variables without making the frame keep them.

    Up to Python 3.12 a function's frame keeps the dictionary of its variables once asked for, and with it tensors that
    the function drops later. So that dictionary is emptied, except where the function may hold it itself.
    """
    shown = frame.f_locals
    copied = dict(shown)
    code = frame.f_code
    if type(shown) is dict and code.co_flags & inspect.CO_OPTIMIZED and _ASKS_FOR_LOCALS.isdisjoint(code.co_names):
        shown.clear()
    return copied


def _list_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield an object's parts, each with its suffix to the path."""
    try:
        if isinstance(value, dict):
            for key, item in list(value.items())[:_MOST_ITEMS]:
                yield f"[{key!r}]" if isinstance(key, (str, int)) else "[...]", item
        elif isinstance(value, (list, tuple, deque)):
            for place, item in enumerate(list(value)[:_MOST_ITEMS]):
                yield f"[{place}]", item
        elif isinstance(value, (set, frozenset)):
            for item in list(value)[:_MOST_ITEMS]:
                yield "[...]", item
        elif isinstance(value, types.FunctionType):
            for cell in value.__closure__ or ():
                yield "", cell.cell_contents
        elif isinstance(value, types.MethodType):
            yield "", value.__self__
        elif isinstance(value, functools.partial):
            for item in (value.func, *value.args, *value.keywords.values()):
                yield "", item
        else:
            yield from _list_attributes(value)
    except Exception:  # a program's objects may raise anything when inspected
        return


def _list_attributes(value: Any) -> Iterator[tuple[str, Any]]:
    for name, item in list(getattr(value, "__dict__", {}).items()):
        if name in ("_modules", "_parameters", "_buffers") and isinstance(item, dict):  # torch keeps attributes there
            for own, inner in item.items():
                yield f".{own}", inner
        else:
            yield f".{name}", item
    for kind in type(value).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if isinstance(name, str) and hasattr(value, name):
                yield f".{name}", getattr(value, name)
