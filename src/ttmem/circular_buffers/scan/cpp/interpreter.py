# SPDX-License-Identifier: Apache-2.0
"""Follow a function from its first statement to its last, once: what each variable holds where a buffer is declared.

Both sides of an `if` are followed and their variables merged into choices; a loop body is followed once, with the
variables that it changes unknown; calls of functions and lambdas of the same file (or of a scanned header) are followed
into their bodies, so that a helper's parameters become the caller's arguments.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile

from ttmem.circular_buffers.scan.cpp import expressions as cpp
from ttmem.circular_buffers.scan.cpp.functions import (
    DraftValue,
    FileIndex,
    FollowerListener,
    Function,
    Helpers,
    Lambda,
    draft_in,
    find_declared_name,
    last_name,
)
from ttmem.circular_buffers.scan.cpp.lowering import ExpressionLowering
from ttmem.circular_buffers.scan.cpp.syntax import Node, SourceFile, line_of, list_items, walk

DEEPEST_CALL = 8
MOST_STATEMENTS = 60_000
"""Per followed function, calls included: far above any program factory, and an end to code that explodes."""
LOOPS = ("for_statement", "for_range_loop", "while_statement", "do_statement")
_LISTS = ("vector", "std::vector", "array", "auto", "map", "unordered", "set", "SmallVector", "Group")
_PRIMITIVE = frozenset({"primitive_type", "sized_type_specifier"})
_ENDINGS = frozenset({"return_statement", "throw_statement", "break_statement", "continue_statement", "goto_statement"})


class FunctionFollower(ExpressionLowering):
    """Statements; the values of expressions are in `lowering`."""

    def __init__(self, index: FileIndex, listener: FollowerListener, elsewhere: Helpers | None = None) -> None:
        super().__init__(index, listener, elsewhere)
        self._returned: cpp.Expression | None = None
        """By the call that is being followed."""
        self._depth = 0
        self._left = MOST_STATEMENTS
        self._evaluation = cpp.Evaluation()

    def run(self, statements: Sequence[Node], function: Function | None = None) -> None:
        """Follow a function's body with unknown parameters, or statements outside of functions.

        Lambdas handed to somebody else are followed on their own, with their parameters unknown.
        """
        self._left = MOST_STATEMENTS
        self.variables = _unknown_parameters(function) if function is not None else {}
        self.several(statements)
        for closure in list(self.uncalled.values()):
            self.variables = {**closure.seen, **_unknown_parameters(closure.function)}
            self.follow_statement(closure.function.body)
        self.uncalled.clear()

    def inline(self, function: Function, arguments: Sequence[cpp.Expression], node: Node) -> cpp.Expression | None:
        if self._depth >= DEEPEST_CALL or self._left <= 0 or function.body is None:
            return None
        for key, closure in list(self.uncalled.items()):
            if closure.function.body.id == function.body.id:
                del self.uncalled[key]
        kept = (self.variables, self._returned, self.trail, self.source, self.index, self.guards)
        self.trail = (*self.trail, (function.name, line_of(node)))
        self._depth += 1
        try:
            self.variables = self._parameters(function, arguments)
            self.source, self.index = function.source, function.home or self.index
            returned = self._result_of(function.body)
        finally:
            changed = self.variables
            self.variables, self._returned, self.trail, self.source, self.index, self.guards = kept
            self._depth -= 1
        self._apply_outer_assignments(function, changed, node)
        if returned is None:
            return cpp.Symbol(self.source.of(node), cpp.MEMBER)
        if function.name == "lambda" or isinstance(cpp.plain(returned), (DraftValue, Lambda, cpp.Items)):
            return returned
        return cpp.NamedValue(self.source.of(node), returned)  # so that the call can be bound by its name

    def _result_of(self, body: Node) -> cpp.Expression | None:
        self._returned = None
        self.follow_statement(body)
        return self._returned

    def _parameters(self, function: Function, arguments: Sequence[cpp.Expression]) -> dict[str, cpp.Expression]:
        inner = {**(self.variables if function.name == "lambda" else {}), **_unknown_parameters(function)}
        for name, given in zip(function.template_parameters, self.template_arguments, strict=False):
            if name:
                inner[name] = cpp.NamedValue(name, cpp.unwrap(given, name))
        for position, parameter in enumerate(function.parameters):
            if parameter.name and position < len(arguments):
                inner[parameter.name] = cpp.NamedValue(parameter.name, cpp.unwrap(arguments[position], parameter.name))
            elif parameter.name and parameter.default is not None:
                inner[parameter.name] = cpp.NamedValue(parameter.name, self.lower(parameter.default))
        return inner

    def _apply_outer_assignments(self, function: Function, changed: dict[str, cpp.Expression], node: Node) -> None:
        """Assignments of a lambda to captured variables, and of any function to reference parameters."""
        if function.name == "lambda":
            own = {parameter.name for parameter in function.parameters}
            shared = self.variables.keys() & changed.keys() - own
            self.variables.update((name, changed[name]) for name in shared)
        for parameter, argument in zip(function.parameters, list_items(node, "arguments"), strict=False):
            if parameter.by_reference and argument.type == "identifier" and parameter.name in changed:
                name = self.source.of(argument)
                if draft_in(self.variables.get(name)) is None:
                    self.variables[name] = cpp.NamedValue(name, cpp.unwrap(changed[parameter.name], name))

    def follow_statement(self, node: Node | None) -> bool:
        """Follow a statement; True when control does not go on behind it."""
        if node is None or self._left <= 0:
            return False
        self._left -= 1
        rule = _STATEMENTS.get(node.type)
        if rule is not None:
            return rule(self, node)
        if node.type in _ENDINGS:
            return True
        if node.type.endswith("_expression"):
            self.lower(node)
            return False
        return self.several(node.named_children)

    def several(self, nodes: Sequence[Node]) -> bool:
        """Follow a sequence up to a statement that never continues."""
        guards = self.guards
        ended = any(map(self.follow_statement, nodes))
        self.guards = guards
        return ended

    def block(self, node: Node) -> bool:
        before = dict(self.variables)
        ended = self.several(node.named_children)
        for name in _find_declarations(self.source, node):
            self.variables.pop(name, None)
            if name in before:
                self.variables[name] = before[name]
        return ended

    def effect(self, node: Node) -> bool:
        for child in node.named_children:
            self.lower(child)
        return self.source.text[node.start_byte : node.start_byte + 8] == b"TT_THROW"

    def declaration(self, node: Node) -> bool:
        type_node = node.child_by_field_name("type")
        type_name = last_name(self.source, type_node)
        if any(child.type == "type_qualifier" for child in node.named_children):
            self.unchanging.update(_find_declarations(self.source, node))
        for child in node.children_by_field_name("declarator"):
            if child.type == "init_declarator":
                self._initialize(child, type_name)
            elif child.type == "function_declarator" and type_node is not None and type_node.type not in _PRIMITIVE:
                self._construct(child, type_name)
            else:
                name = find_declared_name(self.source, child)
                made = self.listener.construct(type_name, None, child)
                self.variables[name] = made if made is not None else cpp.NamedValue(name, cpp.Symbol(name, cpp.NAME))
        return False

    def _initialize(self, node: Node, type_name: str) -> None:
        declarator, value_node = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        value = self.lower(value_node)
        if declarator is not None and declarator.type == "structured_binding_declarator":
            self._bound_together(declarator, value)
            return
        name = find_declared_name(self.source, declarator)
        if value_node is not None and value_node.type in ("initializer_list", "argument_list"):
            value = self.built(type_name, value, node)
            if isinstance(value, cpp.Items) and len(value.items) == 1 and not type_name.startswith(_LISTS):
                value = value.items[0]
        self.variables[name] = (
            value if isinstance(cpp.plain(value), Lambda) else cpp.NamedValue(name, cpp.unwrap(value, name))
        )

    def _bound_together(self, declarator: Node, value: cpp.Expression) -> None:
        items = cpp.plain(value)
        for position, child in enumerate(declarator.named_children):
            name = self.source.of(child)
            if isinstance(items, cpp.Items) and position < len(items.items):
                self.variables[name] = cpp.NamedValue(name, items.items[position])
            elif draft_in(value) is not None:
                self.variables[name] = value
            else:
                self.variables[name] = cpp.Symbol(name, cpp.MEMBER)

    def _construct(self, node: Node, type_name: str) -> None:
        """`DataflowBuffer x(dfb::x);` looks like a function declaration to any parser without types."""
        name = find_declared_name(self.source, node)
        given = [child.child_by_field_name("type") or child for child in list_items(node, "parameters", comments=True)]
        made = self.listener.construct(type_name, cpp.Items(tuple(map(self.lower, given))), node)
        self.variables[name] = cpp.NamedValue(name, made) if made is not None else cpp.Symbol(name, cpp.NAME)

    def returning(self, node: Node) -> bool:
        if node.named_children:
            value, before = self.lower(node.named_children[0]), self._returned
            if before is None:
                self._returned = value
            elif self.guards:
                guard = self.guards[-1]
                both = (value, before) if guard.holds else (before, value)
                drafts = [one for one in both if draft_in(one) is not None]
                self._returned = drafts[0] if drafts else cpp.Conditional(guard.expression, *both)
            elif isinstance(before, DraftValue) or draft_in(value) is not None:
                self._returned = value
            else:
                self._returned = cpp.Conditional(cpp.Symbol("returned early", cpp.OPAQUE), before, value)
        return True

    def branch(self, node: Node) -> bool:
        condition_node = node.child_by_field_name("condition")
        initialiser = condition_node.child_by_field_name("initializer") if condition_node is not None else None
        if initialiser is not None:
            self.follow_statement(initialiser.named_children[0] if initialiser.named_children else None)
        condition = self.lower(condition_node)
        text = self.source.of(condition_node).strip("()") if condition_node is not None else ""
        yes, no = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
        return self.fork(condition, text, lambda: self.follow_statement(yes), lambda: self.follow_statement(no))

    def fork(self, condition: cpp.Expression, text: str, yes: Callable[[], bool], no: Callable[[], bool]) -> bool:
        """Both ways, merged; only one where the condition is a constant of the file."""
        known = self._evaluation.integer(condition)
        if known is not None:
            return yes() if known else no()
        guards, before = self.guards, self.variables
        ways = []
        self.listener.enter_branch(condition)
        for holds, follow in ((True, yes), (False, no)):
            self.variables = dict(before)
            self.guards = under = (*guards, cpp.Condition(text, holds, condition))
            ways.append((follow(), self.variables, under))
            self.listener.leave_side(holds)
        (ended_yes, when_true, _), (ended_no, when_false, _) = ways
        if ended_yes is ended_no:
            values, self.guards = _merge(condition, when_true, when_false), guards
        else:
            _, values, self.guards = ways[1 if ended_yes else 0]
        before.clear()  # lambdas hold on to the environment they were defined in: it is changed, not replaced
        before.update(values)
        self.variables = before
        return ended_yes and ended_no

    def preprocessor(self, node: Node) -> bool:
        """A condition of the build: both ways, like an `if` whose condition is the macro."""
        name = node.child_by_field_name("name") or node.child_by_field_name("condition")
        alternative = node.child_by_field_name("alternative")
        text = self.source.of(name) if name is not None else ""
        skipped = {part.id for part in (name, alternative) if part is not None}
        body = [child for child in node.named_children if child.id not in skipped]
        condition: cpp.Expression = cpp.Symbol(text, cpp.NAME)
        if node.children and self.source.of(node.children[0]) == "#ifndef":
            condition = cpp.Unary("!", condition)
        return self.fork(condition, text, lambda: self.several(body), lambda: self.follow_statement(alternative))

    def cases(self, node: Node) -> bool:
        condition = node.child_by_field_name("condition")
        chosen = self.lower(condition)
        cases = [child for child in list_items(node, "body") if child.type == "case_statement"]
        self._case(chosen, self.source.of(condition).strip("()") if condition is not None else "", cases, 0)
        return False

    def _case(self, chosen: cpp.Expression, text: str, cases: list[Node], position: int) -> bool:
        if position == len(cases):
            return False
        case = cases[position]
        value = case.child_by_field_name("value")
        body = [child for child in case.named_children if value is None or child.id != value.id]
        if value is None:
            self.several(body)
            return False
        condition = cpp.fold(cpp.Binary("==", chosen, self.lower(value)))
        words = f"{text} == {self.source.of(value)}"
        follow: Callable[[], bool] = lambda: self._case(chosen, text, cases, position + 1)  # noqa: E731
        return self.fork(condition, words, lambda: self.several(body) and False, follow)

    def loop(self, node: Node) -> bool:
        before = dict(self.variables)
        counted = {"for_statement": self._count_iterations, "for_range_loop": self._count_range}.get(
            node.type, lambda node: None
        )
        trips = counted(node) or cpp.Symbol(self.source.of(node).split("{")[0].strip(), cpp.LOOP)
        own = set(self.variables) - set(before)
        for name in _find_assignments(self.source, node):
            if name in self.variables and draft_in(self.variables[name]) is None:
                self.variables[name] = cpp.NamedValue(name, cpp.Symbol(name, cpp.LOOP))
        self.listener.enter_loop(trips, node)
        guards = self.guards
        if node.type == "while_statement":
            self.lower(node.child_by_field_name("condition"))
        self.follow_statement(node.child_by_field_name("body"))
        self.guards = guards
        self.listener.exit_loop()
        for name in own:
            self.variables.pop(name, None)
        return False

    def _count_range(self, node: Node) -> cpp.Expression | None:
        over = cpp.plain(self.lower(node.child_by_field_name("right")))
        name = find_declared_name(self.source, node.child_by_field_name("declarator"))
        if name:
            self.variables[name] = cpp.Symbol(name, cpp.LOOP)
        return cpp.Integer(len(over.items)) if isinstance(over, cpp.Items) and over.complete else None

    def _count_iterations(self, node: Node) -> cpp.Expression | None:
        """Return the number of iterations of `for (i = a; i < b; i += s)`; None for anything else."""
        initialiser, condition = node.child_by_field_name("initializer"), node.child_by_field_name("condition")
        update = node.child_by_field_name("update")
        self.follow_statement(initialiser)
        if condition is None or update is None or condition.type != "binary_expression":
            return None
        name = self.source.of(condition.child_by_field_name("left"))
        operator = self.source.of(condition.child_by_field_name("operator"))
        start, end = self.variables.get(name), self.lower(condition.child_by_field_name("right"))
        words = self.source.of(update).replace(" ", "")
        if start is None or operator not in ("<", "<=", "!="):
            return None
        if update.type == "assignment_expression" and words.startswith(f"{name}+="):
            step = self.lower(update.child_by_field_name("right"))
        elif words in (f"{name}++", f"++{name}"):
            step = cpp.Integer(1)
        else:
            return None
        return _trips(cpp.plain(start), end, step, inclusive=operator == "<=")


def _unknown_parameters(function: Function) -> dict[str, cpp.Expression]:
    names = (*function.template_parameters, *(parameter.name for parameter in function.parameters))
    return {name: cpp.Symbol(name, cpp.PARAMETER) for name in names if name}


def _trips(start: cpp.Expression, end: cpp.Expression, step: cpp.Expression, *, inclusive: bool) -> cpp.Expression:
    span = end if isinstance(start, cpp.Integer) and start.value == 0 else _span(start, end)
    if inclusive:
        span = cpp.fold(cpp.Binary("+", span, cpp.Integer(1)))
    if isinstance(step, cpp.Integer) and step.value == 1:
        return span
    return cpp.fold(cpp.FunctionCall("div_up", (span, step)))


def _span(start: cpp.Expression, end: cpp.Expression) -> cpp.Expression:
    """`for (i = first; i < first + n; ...)` runs n times whatever `first` is."""
    total = cpp.plain(end)
    if isinstance(total, cpp.Binary) and total.operator == "+":
        if cpp.plain(total.left) is start:
            return total.right
        if cpp.plain(total.right) is start:
            return total.left
    return cpp.fold(cpp.Binary("-", end, start))


def _merge(
    condition: cpp.Expression, yes: dict[str, cpp.Expression], no: dict[str, cpp.Expression]
) -> dict[str, cpp.Expression]:
    """Merge two environments: a variable that differs becomes a choice."""
    both = {}
    for name, value in yes.items():
        other = no.get(name)
        if other is None or other is value or draft_in(value) is not None:
            both[name] = value
        elif isinstance(one := cpp.plain(value), cpp.Items) and isinstance(two := cpp.plain(other), cpp.Items):
            pairs = takewhile(lambda pair: pair[0] is pair[1], zip(one.items, two.items, strict=False))
            shared = tuple(item for item, _ in pairs)
            complete = one.complete and two.complete and len(one.items) == len(two.items) == len(shared)
            both[name] = cpp.NamedValue(name, cpp.Items(shared, complete))
        else:
            both[name] = cpp.NamedValue(
                name, cpp.Conditional(condition, cpp.unwrap(value, name), cpp.unwrap(other, name))
            )
    return {**no, **both}


def _find_declarations(source: SourceFile, block: Node) -> list[str]:
    """Names that a block, or one declaration, introduces."""
    found = [child for child in (block, *block.named_children) if child.type == "declaration"]
    return [find_declared_name(source, name) for child in found for name in child.children_by_field_name("declarator")]


def _find_assignments(source: SourceFile, loop: Node) -> set[str]:
    """Return the variables that a loop assigns or increments."""
    targets = {"assignment_expression": "left", "update_expression": "argument"}
    return {source.of(node.child_by_field_name(targets[node.type])) for node in walk(loop) if node.type in targets}


_STATEMENTS: dict[str, Callable[[FunctionFollower, Node], bool]] = {
    "compound_statement": FunctionFollower.block,
    "declaration": FunctionFollower.declaration,
    "expression_statement": FunctionFollower.effect,
    "return_statement": FunctionFollower.returning,
    "if_statement": FunctionFollower.branch,
    "switch_statement": FunctionFollower.cases,
    **dict.fromkeys(("preproc_ifdef", "preproc_if", "preproc_elif"), FunctionFollower.preprocessor),
    **dict.fromkeys(LOOPS, FunctionFollower.loop),
    **dict.fromkeys(
        ("comment", "function_definition", "preproc_def", "preproc_function_def"), lambda self, node: False
    ),
}
