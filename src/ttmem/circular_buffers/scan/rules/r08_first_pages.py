# SPDX-License-Identifier: Apache-2.0
"""R8: a cycle among what must be pushed before what."""

from ttmem.circular_buffers.scan.kernel.trace import PUSH, WAIT, Loop, Operation, Trace
from ttmem.circular_buffers.scan.link_host_and_kernels import JoinedKernel, JoinedProgram
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, Rule


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
            if isinstance(step, Operation):
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


RULE = Rule(
    "R8",
    "No two kernels wait for each other's first page",
    "each waits for a page that the other pushes only after its own wait: neither ever starts",
    "push the first page before waiting, in one of them",
    joined=_order,
)
