# SPDX-License-Identifier: Apache-2.0
"""Whether what a statement speaks of can have come from the device, read backwards from it in the source.

Tensors of torch are followed as they are made (`device_values`). Python's numbers and arrays of numpy are not: for them
the source is asked what a name was made of, in its function and in those that called it. What cannot be found out may
come from the device, so that only what is a test's own beyond doubt is judged.
"""

import ast
import builtins
import functools
import linecache
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

Tells = Callable[[Any], bool | None]
"""Whether a value came from the device; None where the value itself does not tell."""

FACTS = {
    "shape", "padded_shape", "dtype", "layout", "memory_config", "is_sharded", "storage_type", "is_allocated", "rank",
    "buffer_address", "num_program_cache_entries", "shard_spec", "buffer_type", "memory_layout", "volume", "numel",
    "device", "spec", "ndim", "size",
}  # fmt: skip
"""What a mock knows of a tensor: an assertion on these is the test's own."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_CONDITIONS = (ast.If, ast.While, ast.IfExp)
_CHANGES = {"append", "appendleft", "extend", "insert", "add", "update", "setdefault", "put", "put_nowait", "write"}
"""Methods by which a thing gets to hold their arguments; so do those of torch that end in an underscore."""
_FETCHES = {"load", "open", "read", "recv", "get", "result", "join", "loads", "import_module", "getattr", "eval"}
"""Functions whose results say nothing of where they came from."""
_LIBRARY = "ttnn"
_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, range, slice, type(None))
_DEEPEST = 40


class Place(NamedTuple):
    """A frame of the test's and the line it is at."""

    frame: FrameType
    line: int
    is_called_by_test: bool
    """The frame before it is its caller; otherwise a library called it, or nobody did."""


def parsed(file: str, variables: Mapping[str, Any]) -> ast.Module | None:
    """The source of a file, as far as there is any."""
    return _parsed("".join(linecache.getlines(file, dict(variables))))


@functools.lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source) if source else None
    except (SyntaxError, ValueError):
        return None


def statements(frame: FrameType, line: int) -> list[ast.stmt]:
    """The statement on a line, and those around it within its function, the outermost first."""
    covering = _covering(frame, line)
    function = max((place for place, one in enumerate(covering) if isinstance(one, FUNCTIONS)), default=-1)
    return covering[function + 1 :]


def _covering(frame: FrameType, line: int) -> list[ast.stmt]:
    tree = parsed(frame.f_code.co_filename, frame.f_globals)
    found = [
        node for node in (ast.walk(tree) if tree else ())
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]  # fmt: skip
    return sorted(found, key=lambda one: (one.lineno, -(one.end_lineno or one.lineno)))


def said(places: list[Place]) -> list[tuple[int, ast.expr]]:
    """The expressions on which it depends that the last statement failed, each with the number of its place."""
    last = len(places) - 1
    around = statements(places[last].frame, places[last].line)
    if not around:
        return []
    found = [(last, one) for one in _spoken(around[-1])]
    found += [
        (number, one.test)
        for number, place in enumerate(places)
        for one in (around if number == last else statements(place.frame, place.line))[:-1]
        if isinstance(one, (ast.If, ast.While))
    ]
    if found and not isinstance(around[-1], (ast.Raise, ast.Expr)):
        return found
    exits = (ast.Return, ast.Break, ast.Continue)
    whole = _covering(places[last].frame, places[last].line)[:1]
    for node in ast.walk(whole[0]) if whole else ():
        if isinstance(node, (ast.If, ast.While)) and any(isinstance(part, exits) for part in ast.walk(node)):
            found.append((last, node.test))
        elif isinstance(node, ast.Try):  # why it came to the handler is not known
            found += [(last, part) for one in node.body for part in ast.walk(one) if isinstance(part, ast.Call)]
    return found


def _spoken(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, (ast.Assert, ast.If, ast.While)):
        return [statement.test]
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return [statement.iter]
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return [item.context_expr for item in statement.items]
    return [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.expr)]


class Provenance:
    """Of what frames of a test speak of, the outermost first."""

    def __init__(self, places: list[Place], tells: Tells, is_users: Callable[[str], bool]) -> None:
        self._places = places
        self._tells = tells
        self._is_users = is_users
        self._asked: set[tuple[int, str]] = set()
        self._depth = 0

    def may_be_device(self, node: ast.AST, place: int) -> bool:
        """Whether an expression of this frame can depend on values from the device."""
        if isinstance(node, ast.Constant):
            return False
        if isinstance(node, ast.Name):
            return self._of_name(node.id, place)
        if isinstance(node, ast.Attribute):
            return node.attr not in FACTS and self.may_be_device(node.value, place)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in FACTS:
                return False
            given = [*node.args, *(word.value for word in node.keywords)]
            return any(self.may_be_device(one, place) for one in given) or self._of_function(node.func, place)
        return any(self.may_be_device(part, place) for part in ast.iter_child_nodes(node))

    def _of_name(self, name: str, place: int) -> bool:
        if (place, name) in self._asked:
            return False
        self._asked.add((place, name))
        frame = self._places[place].frame
        if name in frame.f_locals:
            known = self._of_value(frame.f_locals[name])
            if known or (known is False and not self._depth):  # what it is now need not be what something was made of
                return known
        elif name in frame.f_globals or hasattr(builtins, name):
            return self._of_global(name, frame)
        if name in _parameters(frame) and self._of_caller(name, place):
            return True
        sources = _bindings(frame, self._places[place].line).get(name, [])
        if not sources and name not in frame.f_locals:
            return True
        self._depth += 1
        try:
            return self._depth > _DEEPEST or any(self.may_be_device(source, place) for source in sources)
        finally:
            self._depth -= 1

    def _of_value(self, value: Any, depth: int = 0) -> bool | None:
        """None: a plain value, which may be made of anything."""
        told = self._tells(value)
        if told is not None:
            return told
        if isinstance(value, (ModuleType, FunctionType, BuiltinFunctionType, type)):
            return False
        if isinstance(value, (list, tuple, set, dict)) and depth < 3:
            items = list(value.values() if isinstance(value, dict) else value)[:1000]
            return True if any(self._of_value(item, depth + 1) for item in items) else None
        is_plain = isinstance(value, _PLAIN) or type(value).__module__.partition(".")[0] in ("numpy", "torch")
        return None if is_plain else True  # an object of the test's may hold or read anything

    def _of_global(self, name: str, frame: FrameType) -> bool:
        """What a module has is there before any device is, unless its functions change it."""
        value = frame.f_globals.get(name)
        if self._of_value(value):
            return True
        tree = parsed(frame.f_code.co_filename, frame.f_globals)
        inside = (one for one in (ast.walk(tree) if tree else ()) if isinstance(one, FUNCTIONS[:2]))
        return any(name in _declared(one) or name in _changed(one) for one in inside)

    def _of_caller(self, parameter: str, place: int) -> bool:
        """Whether what the call that led here gave for a parameter may come from the device."""
        if not self._places[place].is_called_by_test:
            return place > 0  # of the outermost, which pytest calls, they are its parameters
        caller = self._places[place - 1]
        around = statements(caller.frame, caller.line)
        frame = self._places[place].frame
        calls = [part for one in around[-1:] for expression in _spoken(one)
                 for part in ast.walk(expression) if isinstance(part, ast.Call)]  # fmt: skip
        calls = [one for one in calls if _last_name(one.func) == frame.f_code.co_name] or calls
        given = [argument for one in calls for argument in _given(one, parameter, _parameters(frame))]
        return not calls or any(self.may_be_device(one, place - 1) for one in given)

    def _of_function(self, node: ast.expr, place: int) -> bool:
        """Whether a function can bring values from the device by itself."""
        frame = self._places[place].frame
        if isinstance(node, ast.Attribute):
            owner = _resolved(node.value, frame)
            if not isinstance(owner, (ModuleType, type)):
                return node.attr in _FETCHES - {"get", "join"} or self.may_be_device(node.value, place)
        function = _resolved(node, frame)
        return function is None or self._reads(function, _DEEPEST)

    def _reads(self, function: Any, left: int) -> bool:
        home = str(getattr(function, "__module__", None) or "").partition(".")[0]
        if home == _LIBRARY or getattr(function, "__name__", "") in _FETCHES:
            return True
        function = getattr(function, "__wrapped__", function)
        function = function.__func__ if isinstance(function, MethodType) else function
        code = getattr(function, "__code__", None)
        if code is None or not self._is_users(code.co_filename):
            is_of_test = isinstance(function, type) and self._is_users(_file_of(function))
            return is_of_test or not (isinstance(function, (type, BuiltinFunctionType)) or home)
        if left == 0:
            return True
        values = [function.__globals__.get(name) for name in _names_in(code)]
        values += [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        return any(self._can_reach(value, left) for value in values)

    def _can_reach(self, value: Any, left: int) -> bool:
        if isinstance(value, ModuleType):
            return value.__name__.partition(".")[0] == _LIBRARY
        if callable(value) and not isinstance(value, ModuleType):
            return self._reads(value, left // 2)
        return bool(self._of_value(value))


def _file_of(owner: type) -> str:
    return str(getattr(sys.modules.get(owner.__module__), "__file__", "") or "")


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _resolved(node: ast.expr, frame: FrameType) -> Any:
    """What a name, or an attribute of a module, is; None when that cannot be said."""
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in names:
                return names[node.id]
        return None
    if isinstance(node, ast.Attribute):
        owner = _resolved(node.value, frame)
        return getattr(owner, node.attr, None) if isinstance(owner, (ModuleType, type)) else None
    return None


def _parameters(frame: FrameType) -> tuple[str, ...]:
    code = frame.f_code
    stars = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]


def _given(call: ast.Call, parameter: str, parameters: tuple[str, ...]) -> list[ast.expr]:
    """What a call gives for a parameter: all of it where that is not plain; nothing where its default holds."""
    everything = [*call.args, *(word.value for word in call.keywords)]
    if any(isinstance(one, ast.Starred) for one in call.args) or any(word.arg is None for word in call.keywords):
        return everything
    named = [word.value for word in call.keywords if word.arg == parameter]
    place = parameters.index(parameter) - (parameters[0] in ("self", "cls"))
    return named or (call.args[place : place + 1] if place >= 0 else everything)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _bindings(frame: FrameType, line: int) -> Mapping[str, list[ast.expr]]:
    """What names of the outermost function around a line are made of, conditions included."""
    function = next((one for one in _covering(frame, line) if isinstance(one, FUNCTIONS[:2])), None)
    tree = parsed(frame.f_code.co_filename, frame.f_globals)
    return _bound(function or tree) if function or tree else {}


def _changed(function: ast.AST) -> set[str]:
    """Names of things outside a function that it puts something into."""
    own = {name for name, is_own in _targets(function) if is_own}
    return {name for name, is_own in _targets(function) if not is_own} - own


def _declared(function: ast.AST) -> set[str]:
    return {name for one in ast.walk(function) if isinstance(one, ast.Global) for name in one.names}


def _targets(function: ast.AST) -> Iterator[tuple[str, bool]]:
    for node in ast.walk(function):
        for target, _ in _made_in(node):
            for root in _roots(target):
                yield root.id, root is target or isinstance(target, (ast.Tuple, ast.List))


@functools.lru_cache(maxsize=64)
def _bound(scope: ast.AST) -> Mapping[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}

    def visit(node: ast.AST, conditions: tuple[ast.expr, ...]) -> None:
        for target, sources in _made_in(node):
            for root in _roots(target):
                found.setdefault(root.id, []).extend((*sources, *conditions))
        if isinstance(node, _CONDITIONS):
            conditions = (*conditions, node.test)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            conditions = (*conditions, node.iter)
        for part in ast.iter_child_nodes(node):
            visit(part, conditions)

    visit(scope, ())
    return found


def _made_in(node: ast.AST) -> Iterable[tuple[ast.expr, list[ast.expr]]]:
    """Targets of one statement or expression, and what they are made of."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            sides = [one.elts if isinstance(one, ast.Tuple) else [one] for one in (target, node.value)]
            pairs = zip(*sides, strict=True) if len(sides[0]) == len(sides[1]) else [(target, node.value)]
            yield from ((one, [source]) for one, source in pairs)
    elif isinstance(node, (ast.AugAssign, ast.NamedExpr, ast.AnnAssign)):
        yield node.target, [node.value] if node.value else []
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield node.target, [node.iter]
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        yield from ((item.optional_vars, [item.context_expr]) for item in node.items if item.optional_vars)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if name in _CHANGES or (name.endswith("_") and not name.endswith("__")):
            yield node.func, [*node.args, *(word.value for word in node.keywords)]


def _roots(target: ast.expr) -> Iterator[ast.Name]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for one in target.elts:
            yield from _roots(one)
    elif isinstance(target, ast.Name):
        yield target
    elif isinstance(target, (ast.Attribute, ast.Subscript, ast.Starred)):
        yield from _roots(target.value)
