# SPDX-License-Identifier: Apache-2.0
"""R6: two kernels on one side of a buffer."""

from pathlib import PurePath

from ttmem.circular_buffers.scan.cpp.expressions import render
from ttmem.circular_buffers.scan.kernel.trace import POP, PUSH
from ttmem.circular_buffers.scan.link_host_and_kernels import JoinedKernel, JoinedProgram
from ttmem.circular_buffers.scan.model import WARNING
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, Rule


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


RULE = Rule(
    "R6",
    "One producer and one consumer per buffer and core",
    "both sides keep their own counters; two kernels on one side race for them, which hangs now and then",
    "give each kernel its own buffer, or its own cores",
    severity=WARNING,
    joined=_sides,
)
