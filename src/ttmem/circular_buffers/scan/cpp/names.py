# SPDX-License-Identifier: Apache-2.0
"""Names and literals under what the variables are known to hold."""

from abc import ABC, abstractmethod

from ttmem.base.limits import NUMBER_BITS, NUMBER_DIGITS
from ttmem.circular_buffers.scan.cpp import expressions as cpp
from ttmem.circular_buffers.scan.cpp.arithmetic import CONSTANTS, ENUMERATIONS
from ttmem.circular_buffers.scan.cpp.functions import FileIndex, FollowerListener, Helpers, Lambda
from ttmem.circular_buffers.scan.cpp.syntax import Node, SourceFile, parse


class Names(ABC):
    """Variables, constants and literals: what an expression is made of."""

    def __init__(self, index: FileIndex, listener: FollowerListener, elsewhere: Helpers | None = None) -> None:
        self.index = index
        self.source: SourceFile = index.source
        self.listener = listener
        self.variables: dict[str, cpp.Expression] = {}
        self.guards: tuple[cpp.Condition, ...] = ()
        self.trail: tuple[tuple[str, int], ...] = ()
        self._elsewhere = elsewhere or {}
        self.template_arguments: list[cpp.Expression] = []
        """Of the call that is being reported: helpers get buffers that way too."""
        self.unchanging: set[str] = set()
        """Variables declared const."""
        self.uncalled: dict[int, Lambda] = {}
        """Lambdas that were defined and not called by name: they may still be called by somebody else."""

    @abstractmethod
    def lower(self, node: Node | None) -> cpp.Expression:
        """The value of an expression; calls inside it are reported to the listener on the way."""

    def identifier(self, node: Node) -> cpp.Expression:
        return self.look_up(self.source.of(node))

    def look_up(self, name: str) -> cpp.Expression:
        """A variable, a constant of the file, or a name from elsewhere."""
        return self.variables.get(name) or self.index.known.get(name) or self._constant(name)

    def _constant(self, name: str) -> cpp.Expression:
        self.index.known[name] = cpp.Symbol(name, cpp.NAME)  # while its own definition is being read
        if name in self.index.constants:
            found: cpp.Expression = cpp.NamedValue(name, cpp.unwrap(self._outside(self.index.constants[name])))
        elif name in self.index.enumerators:
            position, explicit = self.index.enumerators[name]
            start = self._outside(explicit) if explicit is not None else cpp.Integer(0)
            found = start if position == 0 else cpp.fold(cpp.Binary("+", start, cpp.Integer(position)))
        elif name in self.index.macros:
            found = cpp.NamedValue(name, self._macro(self.index.macros[name]))
        elif name in CONSTANTS:
            found = cpp.NamedValue(name, cpp.Integer(CONSTANTS[name]))
        else:
            found = cpp.Symbol(name, cpp.NAME)
        self.index.known[name] = found
        return found

    def _macro(self, text: str) -> cpp.Expression:
        """Return the expression of a macro, if it is one."""
        source = parse(self.source.path, f"auto value = {text};".encode())
        node = source.root.named_children[0] if source.root.named_children and not source.broken else None
        for field in ("declarator", "value"):
            node = node.child_by_field_name(field) if node is not None else None
        if node is None:
            return cpp.Symbol(text, cpp.NAME)
        kept, self.source = self.source, source
        try:
            return self._outside(node)
        finally:
            self.source = kept

    def _outside(self, node: Node) -> cpp.Expression:
        """Constants are defined outside of any function: its variables are not theirs."""
        kept, self.variables = self.variables, {}
        try:
            return self.lower(node)
        finally:
            self.variables = kept

    def lower_qualified(self, node: Node) -> cpp.Expression:
        text = self.source.of(node)
        if text in self.variables:
            return self.variables[text]
        scope, name = ["", *text.split("::")][-2:]
        number = name.removeprefix("c_")
        if (
            number.isdecimal()
            and len(number) <= NUMBER_DIGITS
            and (scope == "CBIndex" or (scope == "CB" and name != number))
        ):
            return cpp.Integer(int(number))
        if scope in ENUMERATIONS:
            return cpp.Enumerator(name)
        if scope in ("dfb", "args", "tensor", "sem"):
            return cpp.Symbol(f"{scope}::{name}", cpp.BINDING)
        if f"{scope}::{name}" in self.index.enumerators:
            return self.look_up(f"{scope}::{name}")
        if name in CONSTANTS or name in self.index.constants:
            return self.look_up(name)
        return cpp.Symbol(text, cpp.NAME)

    def number(self, node: Node) -> cpp.Expression:
        text = self.source.of(node).replace("'", "").lower()
        digits = text.rstrip("ulz" if text.startswith("0x") else "ulzf")
        if len(digits) > NUMBER_BITS:  # more than a binary literal needs
            return cpp.Symbol(text, cpp.OPAQUE)
        octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
        try:
            return cpp.Integer(int(digits, 8 if octal else 0))
        except ValueError:
            pass
        try:
            value = float(digits)
            return cpp.Integer(int(value)) if value.is_integer() else cpp.Symbol(text, cpp.OPAQUE)
        except (ValueError, OverflowError):
            return cpp.Symbol(text, cpp.OPAQUE)

    def string(self, node: Node) -> cpp.Expression:
        return cpp.Text(
            "".join(self.source.of(child) for child in node.named_children if child.type == "string_content")
        )

    def strings(self, node: Node) -> cpp.Expression:
        values = [cpp.plain(self.lower(child)) for child in node.named_children]
        return cpp.Text("".join(value.value for value in values if isinstance(value, cpp.Text)))
