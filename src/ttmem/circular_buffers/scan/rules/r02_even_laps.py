# SPDX-License-Identifier: Apache-2.0
"""R2: steps that do not add up to the capacity."""

from ttmem.circular_buffers.scan.cpp.polynomials import as_constant
from ttmem.circular_buffers.scan.kernel.trace import POP, PUSH
from ttmem.circular_buffers.scan.link_host_and_kernels import JoinedProgram
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, Rule


def _laps(joined: JoinedProgram) -> Breaches:
    for buffer in joined.buffers:
        pages = buffer.pages
        for kind in (PUSH, POP) if pages and not buffer.is_hidden else ():
            count = buffer.only_count(kind)
            if not pages or not count or pages % count == 0 or count > pages:
                continue
            total = as_constant(buffer.total(kind))
            if total is not None and total <= pages:
                continue  # it never comes to the end
            text = f"{kind} moves {count} pages at a time through buffer {buffer.name} of {pages} pages"
            yield Breach(buffer.kernel.file, buffer.steps(kind)[0].line, text)


RULE = Rule(
    "R2",
    "Steps add up to the capacity over one lap",
    "the pointer wraps only when it meets the end exactly; a step across the end writes behind the buffer",
    "make the capacity a multiple of the step",
    joined=_laps,
)
