# SPDX-License-Identifier: Apache-2.0
"""What is told to whoever listens while a function is followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ttmem.circular_buffers.scan.cpp.expressions import Expression
from ttmem.circular_buffers.scan.cpp.syntax import Node


class Sink(Protocol):
    """Who listens while a function is followed: the host's declarations, or a kernel's buffer operations."""

    doubts_calls: bool
    """Whether a function that was not read may have changed the variables it was given."""

    def call(
        self, name: str, receiver: Expression | None, arguments: Sequence[Expression], node: Node
    ) -> Expression | None: ...

    def construct(self, type_name: str, value: Expression | None, node: Node) -> Expression | None: ...

    def assign_field(self, receiver: Expression, field: str, value: Expression, node: Node) -> Expression | None: ...

    def enter_loop(self, trips: Expression, node: Node) -> None: ...

    def exit_loop(self) -> None: ...

    def enter_branch(self, condition: Expression, text: str) -> None: ...

    def otherwise(self) -> None: ...

    def exit_branch(self) -> None: ...
