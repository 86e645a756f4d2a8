# SPDX-License-Identifier: Apache-2.0
"""Results of a scan: declarations, kernels, programs and findings, as plain values that can leave their process."""

from dataclasses import dataclass

from ttmem.circular_buffers.scan.cpp.expressions import Condition, Expression, evaluate, render
from ttmem.circular_buffers.scan.trace import PASSED, Trace, buffers_of, operations, select_buffer

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
