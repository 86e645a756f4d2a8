# SPDX-License-Identifier: Apache-2.0
"""C++ expressions to `expressions` nodes, under what the variables are known to hold."""

from abc import abstractmethod
from collections.abc import Callable, Sequence

from ttmem.circular_buffers.scan.cpp import expressions as cpp
from ttmem.circular_buffers.scan.cpp.arithmetic import BINARY, LIBRARY, PURE, SIZEOF, UNARY
from ttmem.circular_buffers.scan.cpp.functions import Function, Lambda, draft_in, last_name, parameters_of
from ttmem.circular_buffers.scan.cpp.names import Names
from ttmem.circular_buffers.scan.cpp.syntax import Node, list_items

_SAME = frozenset({*LIBRARY["same"], *SIZEOF})
_QUIET, _ARGUMENT_READERS = frozenset(LIBRARY["quiet"]), frozenset(LIBRARY["argument_readers"])


class ExpressionLowering(Names):
    """Expressions under an environment; statements are in `interpreter`."""

    @abstractmethod
    def inline(self, function: Function, arguments: Sequence[cpp.Expression], node: Node) -> cpp.Expression | None:
        """Follow a call; None when it is too deep or too long to follow."""

    def lower(self, node: Node | None) -> cpp.Expression:
        """The value of an expression; calls inside it are reported to the listener on the way."""
        if node is None:
            return cpp.Symbol("", cpp.OPAQUE)
        rule = _RULES.get(node.type)
        if rule is not None:
            return rule(self, node)
        for child in node.named_children:
            self.lower(child)
        return cpp.Symbol(self.source.of(node), cpp.OPAQUE)

    def binary(self, node: Node) -> cpp.Expression:
        operator = self.source.of(node.child_by_field_name("operator"))
        left, right = self.lower(node.child_by_field_name("left")), self.lower(node.child_by_field_name("right"))
        operator = {"and": "&&", "or": "||"}.get(operator, operator)
        if operator not in BINARY:
            return cpp.Symbol(self.source.of(node), cpp.OPAQUE)
        if isinstance(cpp.plain(left), cpp.Text) or isinstance(cpp.plain(right), cpp.Text):
            return cpp.Text(
                "".join(side.value for side in (cpp.plain(left), cpp.plain(right)) if isinstance(side, cpp.Text))
            )
        return cpp.Binary(operator, left, right)  # not folded: the answer shows sizes as they are written

    def unary(self, node: Node) -> cpp.Expression:
        operator = self.source.of(node.child_by_field_name("operator"))
        operand = self.lower(node.child_by_field_name("argument"))
        operator = {"not": "!", "compl": "~"}.get(operator, operator)
        return (
            cpp.fold(cpp.Unary(operator, operand))
            if operator in UNARY
            else cpp.Symbol(self.source.of(node), cpp.OPAQUE)
        )

    def ternary(self, node: Node) -> cpp.Expression:
        condition = self.lower(node.child_by_field_name("condition"))
        yes, no = (self.lower(node.child_by_field_name(side)) for side in ("consequence", "alternative"))
        known = cpp.evaluate(condition)
        return cpp.Conditional(condition, yes, no) if known is None else yes if known else no

    def inner(self, node: Node) -> cpp.Expression:
        """Parentheses, references and dereferences do not change a size."""
        argument = node.child_by_field_name("argument") or (node.named_children[-1] if node.named_children else None)
        return self.lower(argument)

    def size_of(self, node: Node) -> cpp.Expression:
        words = self.source.of(node).removeprefix("sizeof").strip("() ").removeprefix("const ")
        if words.endswith("*"):
            return cpp.Integer(8)
        size = SIZEOF.get(words.rpartition("::")[2])
        return cpp.Integer(size) if size else cpp.Symbol(self.source.of(node), cpp.MEMBER)

    def field(self, node: Node) -> cpp.Expression:
        receiver_node, field = node.child_by_field_name("argument"), node.child_by_field_name("field")
        receiver = self.lower(receiver_node)
        name = last_name(self.source, field)
        value = cpp.plain(receiver)
        if isinstance(value, cpp.Record) and (found := value.get(name)) is not None:
            return found
        draft = draft_in(receiver)
        if draft is not None:
            return draft.fields.get(name, cpp.Symbol(self.source.of(node), cpp.MEMBER))
        return self.variables.get(self.source.of(node)) or cpp.Symbol(
            f"{self.text_of(receiver, receiver_node)}.{name}", cpp.MEMBER
        )

    def text_of(self, value: cpp.Expression, node: Node | None) -> str:
        """Return the name of a leaf below a value: the leaf it comes from, else as written."""
        inner = cpp.plain(value)
        if (
            isinstance(inner, cpp.Symbol)
            and inner.kind in (cpp.PARAMETER, cpp.MEMBER, cpp.NAME)
            and len(inner.text) < 80
        ):
            return inner.text
        return self.source.of(node) if node is not None else ""

    def subscript(self, node: Node) -> cpp.Expression:
        argument = node.child_by_field_name("argument")
        value = cpp.plain(self.lower(argument))
        indices = list_items(node, "indices", comments=True)
        index = cpp.evaluate(self.lower(indices[0])) if indices else None
        if isinstance(value, cpp.Items) and index is not None and 0 <= index < len(value.items):
            return value.items[index]
        if index is not None and argument is not None:
            return cpp.Symbol(f"{self.text_of(value, argument)}[{index}]", cpp.MEMBER)
        return cpp.Symbol(self.source.of(node), cpp.MEMBER)

    def braces(self, node: Node) -> cpp.Expression:
        fields: list[tuple[str, cpp.Expression]] = []
        for child in node.named_children:
            if child.type == "initializer_pair":
                designator, value = child.child_by_field_name("designator"), child.child_by_field_name("value")
                name = self.source.of(designator).lstrip(".") if designator is not None else ""
                fields.append((name, self.lower(value)))
        return cpp.Record("", tuple(fields)) if fields else cpp.Items(tuple(self.arguments(node)))

    def literal(self, node: Node) -> cpp.Expression:
        """`Type{...}`."""
        value = self.lower(node.child_by_field_name("value"))
        return self.built(last_name(self.source, node.child_by_field_name("type")), value, node)

    def built(self, type_name: str, value: cpp.Expression, node: Node) -> cpp.Expression:
        if isinstance(value, cpp.Record):
            value = cpp.Record(type_name, value.fields)
        made = self.listener.construct(type_name, value, node)
        if made is None and isinstance(value, cpp.Items) and len(value.items) == 1 and type_name in _SAME:
            return value.items[0]
        return value if made is None else made

    def closure(self, node: Node) -> Lambda:
        body, declarator = node.child_by_field_name("body"), node.child_by_field_name("declarator")
        function = Function("lambda", parameters_of(self.source, declarator), body, self.source, home=self.index)
        made = Lambda(function, self.variables)
        self.uncalled.setdefault(node.id, made)
        return made

    def call(self, node: Node) -> cpp.Expression:
        callee, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if callee is None or given is None:
            return cpp.Symbol(self.source.of(node), cpp.OPAQUE)
        receiver: cpp.Expression | None = None
        receiver_node: Node | None = None
        if callee.type == "field_expression":
            receiver_node = callee.child_by_field_name("argument")
            receiver = self.lower(receiver_node)
            name = last_name(self.source, callee.child_by_field_name("field"))
        else:
            name = last_name(self.source, callee)
        if name in _QUIET:
            return cpp.Symbol(name, cpp.OPAQUE)
        if callee.type == "lambda_expression":
            arguments = self.arguments(given)
            made = self.inline(self.closure(callee).function, arguments, node)
            return made if made is not None else cpp.Symbol(self.source.of(node), cpp.CALL)
        if given.type == "initializer_list":
            return self.built(name, self.lower(given), node)
        arguments = self.arguments(given)
        self.template_arguments = self._template_arguments(callee)
        return self._lower_call(name, receiver, receiver_node, arguments, node)

    def _template_arguments(self, callee: Node) -> list[cpp.Expression]:
        while callee is not None and callee.type in ("qualified_identifier", "field_expression"):
            callee = callee.child_by_field_name("name" if callee.type == "qualified_identifier" else "field")
        given = list_items(callee, "arguments", comments=True) if callee is not None else []
        inner = [child.child_by_field_name("type") if child.type == "type_descriptor" else child for child in given]
        return [self.lower(child) for child in inner]

    def arguments(self, node: Node) -> list[cpp.Expression]:
        return [self.lower(child) for child in node.named_children if child.type != "comment"]

    def _lower_call(
        self,
        name: str,
        receiver: cpp.Expression | None,
        receiver_node: Node | None,
        arguments: list[cpp.Expression],
        node: Node,
    ) -> cpp.Expression:
        if receiver is None:
            if name in _SAME and len(arguments) == 1:
                return arguments[0]
            if name in _ARGUMENT_READERS:
                return cpp.argument_leaf(name, arguments, self.source.of(node))
            followed = self._follow(name, arguments, node)
            if followed is not None:
                return followed
        heard = self.listener.call(name, receiver, arguments, node)
        if heard is not None:
            return heard
        if receiver is None and name in PURE:
            return cpp.fold(cpp.FunctionCall(name, tuple(arguments)))
        if receiver is not None:
            return self._method(name, receiver, receiver_node, arguments, node)
        if self.listener.doubts_calls and node.parent is not None and node.parent.type == "expression_statement":
            self._may_change(node)
        return cpp.Symbol(self.source.of(node), cpp.CALL)

    def _may_change(self, node: Node) -> None:
        """A function called for its effect alone, and not read here, may have assigned to any variable it was given."""
        for child in list_items(node, "arguments"):
            name = self.source.of(child)
            known = self.variables.get(name) if child.type == "identifier" and name not in self.unchanging else None
            if known is not None and isinstance(
                cpp.plain(known), (cpp.Integer, cpp.Binary, cpp.Unary, cpp.FunctionCall, cpp.Conditional, cpp.Items)
            ):
                self.variables[name] = cpp.Symbol(name, cpp.CALL)

    def _follow(self, name: str, arguments: list[cpp.Expression], node: Node) -> cpp.Expression | None:
        local = cpp.plain(self.variables[name]) if name in self.variables else None
        if isinstance(local, Lambda):
            return self.inline(local.function, arguments, node)
        if name in PURE:
            return None
        function = self.index.find(name, len(arguments))
        if function is None:
            fitting = [other for other in self._elsewhere.get(name, ()) if other.accepts(len(arguments))]
            function = fitting[0] if len(fitting) == 1 else None
        return self.inline(function, arguments, node) if function is not None else None

    def _method(
        self,
        name: str,
        receiver: cpp.Expression,
        receiver_node: Node | None,
        arguments: list[cpp.Expression],
        node: Node,
    ) -> cpp.Expression:
        value = cpp.plain(receiver)
        if isinstance(value, cpp.Items):
            if name == "size" and value.complete:
                return cpp.Integer(len(value.items))
            if name in ("push_back", "emplace_back") and len(arguments) == 1:
                self._extend(receiver_node, cpp.Items((*value.items, arguments[0]), value.complete))
            elif name in ("insert", "append_range", "resize", "assign", "clear"):
                self._extend(receiver_node, cpp.Items(value.items, complete=False))
        if name == "append_to" and arguments and isinstance(vector := cpp.plain(arguments[0]), cpp.Items):
            self._extend(list_items(node, "arguments")[0], cpp.Items(vector.items, complete=False))
        if name in ("value", "get") and not arguments and isinstance(value, cpp.Integer):
            return receiver
        head = self.text_of(receiver, receiver_node)
        if name == "value_or" and len(arguments) == 1:
            there = cpp.Symbol(f"{head}.has_value()", cpp.MEMBER)
            return cpp.Conditional(there, cpp.Symbol(f"{head}.value()", cpp.MEMBER), arguments[0])
        if not arguments:
            return cpp.Symbol(f"{head}.{name}()", cpp.MEMBER)
        return cpp.Symbol(f"{head}.{name}{self.source.of(node.child_by_field_name('arguments'))}", cpp.CALL)

    def _extend(self, node: Node | None, items: cpp.Items) -> None:
        if node is not None:
            name = self.source.of(node)
            self.variables[name] = cpp.NamedValue(name, items)

    def lower_assignment(self, node: Node) -> cpp.Expression:
        left, sign = node.child_by_field_name("left"), node.child_by_field_name("operator")
        operator = self.source.of(sign) if sign else "="
        value = self.lower(node.child_by_field_name("right"))
        if left is None:
            return value
        if left.type == "field_expression":
            owner = left.child_by_field_name("argument")
            receiver = self.lower(owner)
            if operator == "=":
                field = last_name(self.source, left.child_by_field_name("field"))
                draft = self.listener.assign_field(receiver, field, value, node)
                if draft is not None and owner.type == "identifier":
                    self.variables[self.source.of(owner)] = draft
        target = self.source.of(left)
        if operator != "=":
            before = self.variables.get(target) or cpp.Symbol(target, cpp.MEMBER)
            value = (
                cpp.fold(cpp.Binary(operator[:-1], before, value))
                if operator[:-1] in BINARY
                else cpp.Symbol(target, cpp.OPAQUE)
            )
        is_draft = draft_in(self.variables.get(target)) is not None
        if left.type == "identifier" or (left.type == "field_expression" and not is_draft):
            self.variables[target] = cpp.NamedValue(target, value if is_draft else cpp.unwrap(value, target))
        return value

    def update(self, node: Node) -> cpp.Expression:
        argument = node.child_by_field_name("argument")
        before = self.lower(argument)
        operator = self.source.of(node.child_by_field_name("operator"))
        if argument is not None and argument.type == "identifier":
            name = self.source.of(argument)
            after = cpp.fold(cpp.Binary(operator[0], before, cpp.Integer(1)))
            self.variables[name] = cpp.NamedValue(name, cpp.unwrap(after, name))
            return after if node.children[0].id != argument.id else before
        return before


_RULES: dict[str, Callable[[ExpressionLowering, Node], cpp.Expression]] = {
    **dict.fromkeys(("identifier", "field_identifier", "type_identifier"), ExpressionLowering.identifier),
    "qualified_identifier": ExpressionLowering.lower_qualified,
    "number_literal": ExpressionLowering.number,
    "true": lambda self, node: cpp.Integer(1),
    **dict.fromkeys(("false", "null", "nullptr"), lambda self, node: cpp.Integer(0)),
    **dict.fromkeys(("string_literal", "raw_string_literal"), ExpressionLowering.string),
    "concatenated_string": ExpressionLowering.strings,
    "binary_expression": ExpressionLowering.binary,
    "unary_expression": ExpressionLowering.unary,
    "conditional_expression": ExpressionLowering.ternary,
    **dict.fromkeys(("parenthesized_expression", "pointer_expression"), ExpressionLowering.inner),
    **dict.fromkeys(
        ("condition_clause", "cast_expression"), lambda self, node: self.lower(node.child_by_field_name("value"))
    ),
    "sizeof_expression": ExpressionLowering.size_of,
    "field_expression": ExpressionLowering.field,
    "subscript_expression": ExpressionLowering.subscript,
    "initializer_list": ExpressionLowering.braces,
    "argument_list": lambda self, node: cpp.Items(tuple(self.arguments(node))),
    "compound_literal_expression": ExpressionLowering.literal,
    "lambda_expression": ExpressionLowering.closure,
    "call_expression": ExpressionLowering.call,
    "assignment_expression": ExpressionLowering.lower_assignment,
    "update_expression": ExpressionLowering.update,
    "template_function": lambda self, node: cpp.Symbol(self.source.of(node), cpp.NAME),
}
