# SPDX-License-Identifier: Apache-2.0
"""R9: kernels that stop for ever, found by running them on counters where all numbers are known."""

from __future__ import annotations

from pathlib import PurePath

from ttmem.circular_buffers.scan.join import JoinedKernel, JoinedProgram
from ttmem.circular_buffers.scan.kernel.counters import Step, run, unrolled
from ttmem.circular_buffers.scan.kernel.trace import POP, PUSH
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, Rule


def _deadlock(joined: JoinedProgram) -> Breaches:
    members = joined.kernels
    if not joined.complete or any(member.use.conditions or not member.use.one_thread for member in members):
        return
    capacities: dict[str, int] = {}
    for buffer in joined.buffers:
        pages = buffer.pages
        if pages is None or buffer.is_hidden or buffer.may_start_full:
            return
        capacities[buffer.key] = pages
    if any(not joined.touching(key, kind) for key in capacities for kind in (PUSH, POP)):
        return
    kernels = [steps for member in members if (steps := _steps(member)) is not None]
    blocked = run(kernels, capacities) if len(kernels) == len(members) else []
    if blocked:
        waits = "; ".join(
            f"{PurePath(members[one.kernel].file).name}:{one.step.line} {one.step.kind} of {one.step.pages} of buffer "
            f"{one.step.buffer} with {one.available} there"
            for one in blocked
        )
        text = f"the kernels of program {joined.program.name} stop for ever: {waits}"
        yield Breach(members[blocked[0].kernel].file, blocked[0].step.line, text)


def _steps(member: JoinedKernel) -> list[Step] | None:
    keys = {identity: buffer.key for identity, buffer in member.buffers.items()}
    return unrolled(member.trace, member.amounts.integer, keys.get)


RULE = Rule(
    "R9",
    "A buffer holds as much as its twin lags behind",
    "one kernel fills two buffers in step while the other drains one of them first: the full one stops both",
    "make the lagging buffer deep enough for the skew, or drain both in step",
    detail="the kernels are run on counters",
    joined=_deadlock,
    only_without_errors=True,
)
