# SPDX-License-Identifier: Apache-2.0
"""Host and kernels together: which declaration a kernel means, and what the host passes to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import PurePath, PurePosixPath

from ttmem.circular_buffers.scan.cpp import expressions as cpp
from ttmem.circular_buffers.scan.cpp.polynomials import Amounts, Polynomial, as_constant
from ttmem.circular_buffers.scan.host.programs import ProgramTotals, Sized
from ttmem.circular_buffers.scan.model import (
    OPERATIONS,
    PASSED,
    FileScan,
    Kernel,
    KernelOperation,
    KernelUse,
    Trace,
    buffers_of,
    operations,
    select_buffer,
    total_of,
)


@dataclass(frozen=True, slots=True, eq=False)
class JoinedBuffer:
    """A declaration as a kernel sees it."""

    kernel: JoinedKernel
    identity: str
    """What the kernel calls it."""
    key: str
    """One per index, shared by the program's kernels; indices that share memory still have counters of their own."""
    candidates: tuple[Sized, ...]
    """More than one where conditions decide."""
    trace: Trace
    """What the kernel does to it."""

    @property
    def name(self) -> str:
        """The name in messages."""
        declaration = self.candidates[0].declaration
        return f"{declaration.label} ({PurePath(declaration.file).name}:{declaration.line})"

    @property
    def capacities(self) -> list[Polynomial]:
        """Pages, for every declaration that may be meant; empty when one of them is not known."""
        found = [capacity(one, self.kernel.amounts.host_amounts) for one in self.candidates]
        return [pages for pages in found if pages is not None] if None not in found else []

    @property
    def pages(self) -> int | None:
        """Its capacity, when every declaration that may be meant has the same number."""
        numbers = {as_constant(pages) for pages in self.capacities}
        return numbers.pop() if len(numbers) == 1 else None

    @property
    def is_hidden(self) -> bool:
        """True if it is passed to a function that was not followed, or the kernel was not fully understood."""
        return self.kernel.kernel.figures.partly_understood or any(
            step.kind == PASSED and step.buffer == self.identity for step in operations(self.kernel.trace)
        )

    @property
    def may_start_full(self) -> bool:
        """True if it may hold pages before the first push, because it borrows a tensor's memory."""
        return any(one.borrowed or one.declaration.borrowed_if for one in self.candidates)

    def steps(self, kind: str) -> list[KernelOperation]:
        """The operations of one kind, in order."""
        return [step for step in operations(self.trace) if step.kind == kind]

    def total(self, kind: str) -> Polynomial | None:
        """Pages moved by all operations of a kind; None where that is not known."""
        return total_of(self.trace, kind, self.kernel.amounts)

    def only_count(self, kind: str) -> int | None:
        """The pages of each operation of a kind, when all move the same number."""
        counts = {self.kernel.amounts.integer(step.count) for step in self.steps(kind)}
        return counts.pop() if len(counts) == 1 else None


@dataclass(frozen=True, slots=True, eq=False)
class JoinedKernel:
    """A kernel in a program, its buffers found and its arguments filled in."""

    use: KernelUse
    kernel: Kernel
    amounts: Amounts
    buffers: dict[str, JoinedBuffer] = field(default_factory=dict)
    """By what the kernel calls them."""

    @property
    def file(self) -> str:
        return self.kernel.figures.file

    @property
    def trace(self) -> Trace:
        return self.kernel.trace


@dataclass(frozen=True, slots=True, eq=False)
class JoinedProgram:
    """A program with those of its kernels that were scanned."""

    program: ProgramTotals
    kernels: tuple[JoinedKernel, ...]
    complete: bool
    """Every kernel it names was found and understood as a whole."""

    @property
    def buffers(self) -> list[JoinedBuffer]:
        """Yield the buffers of all kernels; one that two kernels share comes twice."""
        return [buffer for member in self.kernels for buffer in member.buffers.values()]

    @property
    def keys(self) -> list[str]:
        return list(dict.fromkeys(buffer.key for buffer in self.buffers))

    def touching(self, key: str, kind: str) -> list[JoinedBuffer]:
        """A buffer as those kernels see it that do such an operation to it."""
        return [buffer for buffer in self.buffers if buffer.key == key and buffer.steps(kind)]


def join(files: Sequence[FileScan], programs: Sequence[ProgramTotals], bindings: cpp.Bindings) -> list[JoinedProgram]:
    """Return the programs with their kernels; an unnamed kernel belongs to the only program around, if there is one."""
    kernels = {scan.file: scan.kernel for scan in files if scan.kernel is not None}
    by_name: dict[str, list[str]] = {}
    for file in kernels:
        by_name.setdefault(PurePosixPath(file).name, []).append(file)
    uses: dict[tuple[str, str], list[KernelUse]] = {}
    for scan in files:
        for use in scan.kernel_uses:
            uses.setdefault((use.file, use.program), []).append(use)
    named: set[str] = set()
    joined = []
    for program in programs:
        mine = uses.get((program.file, program.name), [])
        found = [(use, find_kernel(use.source, by_name)) for use in mine]
        named.update(file for _, file in found if file is not None)
        members = [join_kernel(use, kernels[file], program, bindings) for use, file in found if file is not None]
        understood = [member for member in members if not member.kernel.figures.partly_understood]
        complete = bool(members) and len(understood) == len(mine)
        joined.append(JoinedProgram(program, tuple(members), complete))
    orphans = [file for file in kernels if file not in named]
    if len(joined) == 1 and orphans and not joined[0].kernels:
        joined = [_adopt(joined[0], [kernels[file] for file in orphans], bindings)]
    return [one for one in joined if one.kernels]


def _adopt(lone: JoinedProgram, kernels: Sequence[Kernel], bindings: cpp.Bindings) -> JoinedProgram:
    """Link a program with the unnamed kernels of its folder."""
    program = lone.program
    uses = [KernelUse(program.file, program.name, one.figures.file, None, None) for one in kernels]
    members = tuple(join_kernel(use, one, program, bindings) for use, one in zip(uses, kernels, strict=True))
    return JoinedProgram(program, members, complete=False)


def find_kernel(source: str, by_name: Mapping[str, Sequence[str]]) -> str | None:
    """The scanned file with the longest common end; None when two are as good."""
    parts = PurePosixPath(source).parts
    candidates = by_name.get(parts[-1], ()) if parts else ()
    scored = sorted(((_common_end(parts, PurePosixPath(file).parts), file) for file in candidates), reverse=True)
    if not scored or (len(scored) > 1 and scored[0][0] == scored[1][0]):
        return None
    return scored[0][1]


def _common_end(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(reversed(one), reversed(other), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def join_kernel(use: KernelUse, kernel: Kernel, program: ProgramTotals, bindings: cpp.Bindings) -> JoinedKernel:
    """Fill in a kernel's arguments and find its buffers."""
    passed = _collect_arguments(use)
    evaluation = cpp.Evaluation(bindings)
    identities = {step.buffer: step.identity for step in operations(kernel.trace) if step.kind in OPERATIONS}
    joined = JoinedKernel(use, kernel, Amounts(bindings, passed))
    for name in buffers_of(kernel.trace):
        identity = identities[name] or cpp.Symbol("", "opaque")
        own_value = cpp.plain(identity)
        meant = passed.get(own_value.text, own_value) if isinstance(own_value, cpp.Symbol) else own_value
        found = _find_declarations(identity if meant is own_value else cpp.plain(meant), use, program, evaluation)
        if found:
            number, first = evaluation.integer(meant), found[0]
            if number is None:
                number = first.index
            key = first.declaration.name or (
                str(number) if number is not None else cpp.render(first.declaration.index, expand=True)
            )
            joined.buffers[name] = JoinedBuffer(joined, name, key, tuple(found), select_buffer(kernel.trace, name))
    return joined


def _collect_arguments(use: KernelUse) -> dict[str, cpp.Expression]:
    """Return the host's arguments by the name under which the kernel reads them."""
    passed: dict[str, cpp.Expression] = {}
    for position, value in enumerate(use.compile_time_args or ()):
        passed[f"get_compile_time_arg_val({position})"] = value
    for name, value in use.named_args:
        passed[f"args::{name}"] = value
        passed[name] = value  # a template parameter of the entry function
    return passed


def _find_declarations(
    identity: cpp.Expression, use: KernelUse, program: ProgramTotals, evaluation: cpp.Evaluation
) -> list[Sized]:
    active = [one for one in program.buffers if one.active]
    value = cpp.plain(identity)
    if isinstance(value, cpp.Symbol) and value.text.startswith("dfb::"):
        accessor = value.text.removeprefix("dfb::")
        names = {buffer for buffer, name in use.bindings if name == accessor}
        return [one for one in active if one.declaration.name and one.declaration.name in names]
    number = evaluation.integer(identity)
    if number is not None:
        return [one for one in active if number in (one.index, *map(evaluation.integer, one.declaration.indices))]
    text = cpp.render(value, expand=True)
    return [one for one in active if text and cpp.render(one.declaration.index, expand=True) == text]


def capacity(one: Sized, amounts: Amounts) -> Polynomial | None:
    """Pages that a buffer holds: a number, or what multiplies its page size."""
    known = cpp.Integer(one.pages) if one.pages is not None else None
    return amounts.of(known or pages_expression(one.declaration.total, one.declaration.page))


def pages_expression(total: cpp.Expression | None, page: cpp.Expression | None) -> cpp.Expression | None:
    """`pages * page` without the page."""
    if total is None or page is None:
        return None
    product = cpp.plain(total)
    pairs: list[tuple[cpp.Expression, cpp.Expression]] = [(product, cpp.Integer(1))]
    if isinstance(product, cpp.Binary) and product.operator == "*":
        pairs = [(product.right, product.left), (product.left, product.right), *pairs]
    wanted = cpp.render(page, expand=True)
    return next((pages for other, pages in pairs if cpp.render(other, expand=True) == wanted), None)
