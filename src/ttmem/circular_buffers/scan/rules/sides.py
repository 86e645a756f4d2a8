# SPDX-License-Identifier: Apache-2.0
"""Rules on the two sides of a buffer: R6, R7, R8 and R12."""

from collections.abc import Iterator
from pathlib import PurePath

from ttmem.circular_buffers.scan.cpp.expressions import render
from ttmem.circular_buffers.scan.cpp.polynomials import Amounts
from ttmem.circular_buffers.scan.link_host_and_kernels import JoinedKernel, JoinedProgram
from ttmem.circular_buffers.scan.model import (
    BARRIER,
    PASSED,
    POP,
    PUSH,
    READ,
    RESERVE,
    WAIT,
    WARNING,
    WRITE,
    Branch,
    Kernel,
    KernelOperation,
    Loop,
    Trace,
    buffer_name,
    first_lines,
)
from ttmem.circular_buffers.scan.rules.scan_rule import Breach, Breaches, ScanRule


def _sides(joined: JoinedProgram) -> Breaches:
    for key in joined.keys:
        for kind, side in ((PUSH, "pushed"), (POP, "popped")):
            by_cores: dict[str, JoinedKernel] = {}
            for buffer in joined.touching(key, kind):
                member = buffer.kernel
                cores = render(member.use.core_ranges)
                if not cores or member.use.conditions or any(one.open_conditions for one in buffer.candidates):
                    continue
                other = by_cores.setdefault(cores, member)
                if other.file == member.file:
                    continue
                text = (
                    f"buffer {buffer.name} is {side} by this kernel and by {PurePath(other.file).name} on the same "
                    f"cores ({cores})"
                )
                yield Breach(member.file, buffer.steps(kind)[0].line, text)


ONE_KERNEL_PER_SIDE = ScanRule(
    "R6",
    "One producer and one consumer per buffer and core",
    "both sides keep their own counters; two kernels on one side race for them, which hangs now and then",
    "give each kernel its own buffer, or its own cores",
    severity=WARNING,
    joined=_sides,
)


_HALVES = (
    (RESERVE, PUSH, "reserves space in buffer {buffer} but never pushes it"),
    (PUSH, RESERVE, "pushes to buffer {buffer} without ever reserving space"),
    (WAIT, POP, "waits on buffer {buffer} but never pops it"),
    (POP, WAIT, "pops buffer {buffer} without ever waiting for its pages"),
)


def _halves(kernel: Kernel, amounts: Amounts) -> Breaches:
    for buffer, own in kernel.whole_buffers():
        first = first_lines(own)
        for present, missing, text in _HALVES:
            if present in first and missing not in first:
                named = text.format(buffer=buffer_name(buffer))
                yield Breach(kernel.figures.file, first[present], f"the kernel {named}")


BOTH_HALVES = ScanRule(
    "R7",
    "Every reserve_back has its push_back, every wait_front its pop_front",
    "the buffer's state leaks: the other side waits for ever, or the next program finds pages it did not expect",
    "add the missing half; resident or scratch buffers may do without, on purpose",
    severity=WARNING,
    kernel=_halves,
)


def _order(joined: JoinedProgram) -> Breaches:
    needs: dict[str, tuple[set[str], JoinedKernel, int]] = {}
    doubtful = {buffer.key for buffer in joined.buffers if buffer.is_hidden or buffer.may_start_full}
    for member in joined.kernels:
        if member.kernel.figures.partly_understood or member.use.conditions:
            return
        for key, (waited, line) in _first_pushes(member).items():
            if key in needs:
                doubtful.add(key)  # another kernel may push first
            needs[key] = (waited, member, line)
    graph = {key: waited - doubtful for key, (waited, _, _) in needs.items() if key not in doubtful}
    for key in graph:
        cycle = _cycle(key, graph)
        if cycle and min(cycle) == key:
            _, member, line = needs[key]
            path = " -> ".join((*cycle, cycle[0]))
            text = f"the first page of buffer {key} is pushed only after waiting for itself: {path}"
            yield Breach(member.file, line, text)


def _first_pushes(member: JoinedKernel) -> dict[str, tuple[set[str], int]]:
    """Buffer -> (what was waited for before its first push on every path, line)."""
    found: dict[str, tuple[set[str], int]] = {}
    waited: set[str] = set()

    def follow(trace: Trace, *, certain: bool) -> None:
        for step in trace:
            if isinstance(step, KernelOperation):
                buffer = member.buffers.get(step.buffer)
                if buffer is None:
                    continue
                if step.kind == WAIT and certain:
                    waited.add(buffer.key)
                elif step.kind == PUSH:
                    found.setdefault(buffer.key, (set(waited), step.line))
            elif isinstance(step, Loop):
                follow(step.body, certain=certain)
            else:
                follow(step.yes, certain=False)
                follow(step.no, certain=False)

    follow(member.trace, certain=True)
    return found


def _cycle(start: str, graph: dict[str, set[str]]) -> list[str]:
    """A way from a buffer back to itself."""
    pending: list[list[str]] = [[start]]
    seen: set[str] = set()
    while pending:
        path = pending.pop()
        for following in sorted(graph.get(path[-1], ())):
            if following == start:
                return path
            if following not in seen:
                seen.add(following)
                pending.append([*path, following])
    return []


FIRST_PAGES = ScanRule(
    "R8",
    "No two kernels wait for each other's first page",
    "each waits for a page that the other pushes only after its own wait: neither ever starts",
    "push the first page before waiting, in one of them",
    joined=_order,
)


_ENDS = {
    PUSH: (READ, "pushes buffer {} before the read of line {} is known to be done"),
    POP: (WRITE, "pops buffer {} before the write of line {} has left"),
}
_Open = dict[tuple[str, str], int]
"""Transfers under way: (kind, buffer) -> line."""


def _too_early(kernel: Kernel, amounts: Amounts) -> Breaches:
    for line, text in _follow(kernel.trace, {}):
        yield Breach(kernel.figures.file, line, text)


def _follow(trace: Trace, under_way: _Open) -> Iterator[tuple[int, str]]:
    """Pages handed over too early; what is still under way at the end stays in the mapping."""
    for step in trace:
        if isinstance(step, Loop):
            yield from _follow(step.body, under_way)
        elif isinstance(step, Branch):
            other = dict(under_way)
            yield from _follow(step.yes, under_way)
            yield from _follow(step.no, other)
            # A barrier on one side counts: rather miss a mistake than claim one.
            kept = {key: line for key, line in other.items() if key in under_way}
            under_way.clear()
            under_way.update(kept)
        elif step.kind == BARRIER:
            under_way.clear()
        elif step.kind in (READ, WRITE):
            under_way.setdefault((step.kind, step.buffer), step.line)
        elif step.kind == PASSED:
            for kind in (READ, WRITE):
                under_way.pop((kind, step.buffer), None)
        elif step.kind in _ENDS:
            kind, text = _ENDS[step.kind]
            if (line := under_way.pop((kind, step.buffer), None)) is not None:
                yield step.line, text.format(buffer_name(step.buffer), line)


TRANSFER_DONE = ScanRule(
    "R12",
    "A page is handed over after its transfer",
    "the other side may read the page before the data is there, or overwrite it before it has left",
    "put the barrier between the transfer and push_back or pop_front",
    severity=WARNING,
    detail="barrier before push_back and pop_front",
    kernel=_too_early,
)
