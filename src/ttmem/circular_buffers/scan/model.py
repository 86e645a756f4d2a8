# SPDX-License-Identifier: Apache-2.0
"""Results of a scan (declarations, kernels, programs, findings) and traces of kernels, as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ttmem.circular_buffers.scan.cpp.expressions import (
    LOOP,
    Condition,
    Expression,
    Symbol,
    evaluate,
    every_node,
    render,
)
from ttmem.circular_buffers.scan.cpp.polynomials import Amounts, Polynomial, plus, times

RESERVE, PUSH, WAIT, POP = "reserve_back", "push_back", "wait_front", "pop_front"


OPERATIONS = frozenset({RESERVE, PUSH, WAIT, POP})


READ, WRITE, BARRIER, PASSED = "read", "write", "barrier", "passed"
"""Transfers into or out of a buffer, what waits for them, and a buffer handed to a function that was not followed."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelOperation:
    """An operation; `buffer` is its identity (`0`, `dfb::in`, `get_compile_time_arg_val(2)`), empty for barriers."""

    kind: str
    buffer: str
    identity: Expression | None
    count: Expression | None
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A body that runs `trips` times."""

    trips: Expression
    body: Trace


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """A branch: one of two bodies runs."""

    condition: Expression
    yes: Trace
    no: Trace


TraceItem = KernelOperation | Loop | Branch


Trace = tuple["TraceItem", ...]


def every_step(trace: Trace) -> Iterator[TraceItem]:
    """Loops, branches and operations, each before what it encloses."""
    for step in trace:
        yield step
        if isinstance(step, Loop):
            yield from every_step(step.body)
        elif isinstance(step, Branch):
            yield from every_step(step.yes)
            yield from every_step(step.no)


def operations(trace: Trace) -> Iterator[KernelOperation]:
    """Yield the operations inside all loops and branches."""
    return (step for step in every_step(trace) if isinstance(step, KernelOperation))


def first_lines(trace: Trace) -> dict[str, int]:
    """The line of the first operation of each kind."""
    lines: dict[str, int] = {}
    for step in operations(trace):
        lines.setdefault(step.kind, step.line)
    return lines


def buffers_of(trace: Trace) -> list[str]:
    """Return the buffers of a kernel, in order of first use."""
    return list(dict.fromkeys(step.buffer for step in operations(trace) if step.kind in OPERATIONS))


def buffer_name(buffer: str) -> str:
    """A buffer's identity as messages name it."""
    return buffer if buffer.isdigit() or "::" in buffer else f"'{buffer}'"


def select_buffer(trace: Trace, buffer: str) -> Trace:
    """The part of a trace that touches one buffer; loops and branches without it are dropped."""
    kept: list[TraceItem] = []
    for step in trace:
        if isinstance(step, KernelOperation):
            if step.buffer == buffer and step.kind in OPERATIONS:
                kept.append(step)
        elif isinstance(step, Loop):
            if body := select_buffer(step.body, buffer):
                kept.append(Loop(step.trips, body))
        else:
            yes, no = select_buffer(step.yes, buffer), select_buffer(step.no, buffer)
            if yes or no:
                kept.append(Branch(step.condition, yes, no))
    return tuple(kept)


def expressions_in(trace: Trace) -> list[Expression | None]:
    """Counts, trip counts and conditions."""
    return [
        step.count if isinstance(step, KernelOperation) else step.trips if isinstance(step, Loop) else step.condition
        for step in every_step(trace)
    ]


def total_of(trace: Trace, kind: str, amounts: Amounts) -> Polynomial | None:
    """Pages moved by all operations of a kind; None where a branch or a loop makes it unknowable."""
    total: Polynomial = {}
    for step in trace:
        part: Polynomial | None
        if isinstance(step, KernelOperation):
            if step.kind != kind:
                continue
            part = None if depends_on_a_loop(step.count) else amounts.of(step.count)
        elif isinstance(step, Loop):
            body, trips = total_of(step.body, kind, amounts), amounts.of(step.trips)
            if body == {}:
                continue
            part = times(body, trips) if body is not None and trips is not None else None
        else:
            yes, no = total_of(step.yes, kind, amounts), total_of(step.no, kind, amounts)
            part = yes if yes is not None and yes == no else None
        if part is None:
            return None
        total = plus(total, part)
    return total


def depends_on_a_loop(expression: Expression | None) -> bool:
    """Return True if a count changes between iterations of a loop, or is unknown."""
    return expression is None or any(isinstance(node, Symbol) and node.kind == LOOP for node in every_node(expression))


CONFIG, CREATE_CB, DATAFLOW_SPEC = "CircularBufferConfig", "create_cb", "DataflowBufferSpec"
DESCRIPTOR, DESCRIPTOR_FIELDS = "CBDescriptor", "CBDescriptor fields"
APIS = (CONFIG, CREATE_CB, DESCRIPTOR, DESCRIPTOR_FIELDS, DATAFLOW_SPEC)
FIXED, ADAPTIVE, UNKNOWN = "fixed", "adaptive", "unknown"
ERROR, WARNING, NOTE = "error", "warning", "note"


@dataclass(frozen=True, slots=True)
class Declaration:
    """A circular or dataflow buffer of a program, as the source declares it."""

    file: str
    line: int
    api: str
    program: str
    """The function that builds the program."""
    indices: tuple[Expression, ...]
    """More than one where they share the buffer."""
    name: str
    """Of a dataflow buffer."""
    total: Expression | None
    page: Expression | None
    format: Expression | None
    core_ranges: Expression | None
    size_class: str
    strategy: str
    borrowed: bool
    borrowed_if: Condition | None
    conditions: tuple[Condition, ...]
    trail: tuple[tuple[str, int], ...]
    """Helpers through which it was reached: (function, line of the call); the last line is the declaration's own."""
    repeats: Expression | None
    """How often a loop makes it; None outside of loops."""
    site: tuple[str, int, int]
    """File, line and column of the text that declares it, which several helper calls may share."""

    @property
    def index(self) -> Expression | None:
        return self.indices[0] if self.indices else None

    @property
    def label(self) -> str:
        """The name in messages: its index or its name."""
        if self.name:
            return f"'{self.name}'"
        value = evaluate(self.index)
        return str(value) if value is not None else f"'{render(self.index)}'"


@dataclass(frozen=True, slots=True)
class KernelUse:
    """A kernel that a program names."""

    file: str
    program: str
    source: str
    """The path as the host writes it."""
    core_ranges: Expression | None
    compile_time_args: tuple[Expression, ...] | None
    """By position; None when they are not known."""
    named_args: tuple[tuple[str, Expression], ...] = ()
    bindings: tuple[tuple[str, str], ...] = ()
    """Of dataflow buffers: (buffer, accessor in the kernel)."""
    conditions: tuple[Condition, ...] = ()
    one_thread: bool = True
    """False: several threads run it, each with a part of the pages."""


@dataclass(frozen=True, slots=True)
class KernelFigures:
    """Size and complexity of a kernel's source."""

    file: str
    entry: str
    source_bytes: int
    lines: int
    code_lines: int
    buffers: int
    buffer_operations: int
    loops: int
    deepest_loop: int
    branches: int
    noc_calls: int
    barriers: int
    partly_understood: bool


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel's figures and what it does to its buffers, in order."""

    figures: KernelFigures
    trace: Trace

    def whole_buffers(self, *, even_passed_on: bool = False) -> list[tuple[str, Trace]]:
        """Each buffer and what is done to it; none where the kernel was not understood as a whole.

        One that goes to a function which was not followed is left out unless that does not matter.
        """
        if self.figures.partly_understood:
            return []
        passed = {step.buffer for step in operations(self.trace) if step.kind == PASSED and not even_passed_on}
        return [
            (buffer, select_buffer(self.trace, buffer)) for buffer in buffers_of(self.trace) if buffer not in passed
        ]


@dataclass(frozen=True, slots=True)
class ScanFinding:
    """A rule that does not hold, or may not."""

    rule: str
    file: str
    line: int
    message: str
    severity: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that could not be read, or not in full."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileScan:
    """Everything one file says."""

    file: str
    declarations: tuple[Declaration, ...] = ()
    sites: tuple[Declaration, ...] = ()
    """Every declaration once, where it is written, with a helper's parameters unknown."""
    kernel_uses: tuple[KernelUse, ...] = ()
    kernel: Kernel | None = None
    skipped: Skipped | None = None
    broken: bool = False
