# SPDX-License-Identifier: Apache-2.0
"""What exists only while a function is followed: lambdas, objects that are still being filled in, and who listens."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ttmem.circular_buffers.scan.cpp.expressions import Condition, Expression, Local, plain
from ttmem.circular_buffers.scan.cpp.functions import Function
from ttmem.circular_buffers.scan.cpp.syntax import Node


class Lambda(Local, frozen=True):
    """A lambda and the variables it sees."""

    function: Function
    seen: dict[str, Expression]

    def __str__(self) -> str:
        return "lambda"


@dataclass(slots=True, eq=False)
class Draft:
    """An object that later statements still change: a buffer declaration, a kernel, a buffer object of a kernel."""

    kind: str
    file: str
    line: int
    column: int = 0
    fields: dict[str, Expression] = field(default_factory=dict)
    guards: tuple[Condition, ...] = ()
    trail: tuple[tuple[str, int], ...] = ()
    """Calls through which it was reached: (function, line of the call)."""
    repeats: Expression | None = None
    order: int = 0
    field_guards: dict[str, tuple[Condition, ...]] = field(default_factory=dict)


class DraftValue(Local, frozen=True):
    """A reference to a draft, as variables hold it."""

    draft: Draft

    def __str__(self) -> str:
        return f"{self.draft.kind} of line {self.draft.line}"


class Listener:
    """Hears what a function does while it is followed: the host's declarations, or a kernel's buffer operations.

    An answer of None leaves the value to whoever follows the function.
    """

    doubts_calls = True
    """Whether a function that was not read may have changed the variables it was given."""

    def call(
        self, name: str, receiver: Expression | None, arguments: Sequence[Expression], node: Node
    ) -> Expression | None:
        """A function, or a method of the receiver."""

    def construct(self, type_name: str, value: Expression | None, node: Node) -> Expression | None:
        """An object of some type."""

    def assign_field(self, receiver: Expression, field: str, value: Expression, node: Node) -> Expression | None:
        """`receiver.field = value`."""

    def enter_loop(self, trips: Expression, node: Node) -> None:
        """What follows happens so many times, until `exit_loop`."""

    def exit_loop(self) -> None:
        """The loop is over."""

    def enter_branch(self, condition: Expression) -> None:
        """What follows happens under a condition, until `leave_side` says so, then without it, until it says so."""

    def leave_side(self, holds: bool) -> None:
        """One side of the branch is over: the one where its condition holds, or the other."""


def draft_in(expression: Expression | None) -> Draft | None:
    """The draft that a value refers to."""
    value = plain(expression) if expression is not None else None
    return value.draft if isinstance(value, DraftValue) else None
