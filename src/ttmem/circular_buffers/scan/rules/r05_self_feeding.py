# SPDX-License-Identifier: Apache-2.0
"""R5: a kernel that waits for space which only itself could free."""

from ttmem.circular_buffers.scan.cpp.polynomials import Amounts
from ttmem.circular_buffers.scan.kernel.trace import POP, PUSH, RESERVE, Branch, Loop, Trace
from ttmem.circular_buffers.scan.link_host_and_kernels import JoinedProgram
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, Rule


def _self_feeding(joined: JoinedProgram) -> Breaches:
    for buffer in joined.buffers:
        pages = buffer.pages
        if pages is None or buffer.is_hidden or not all(map(buffer.steps, (RESERVE, PUSH, POP))):
            continue
        _, refused = _follow(buffer.trace, 0, pages, buffer.kernel.amounts)
        if refused is not None:
            line, held, asked = refused
            text = (
                f"reserves {asked} pages of buffer {buffer.name} while the kernel itself still holds {held}"
                f"; the buffer has {pages}"
            )
            yield Breach(buffer.kernel.file, line, text)


_Refused = tuple[int, int, int]


def _follow(trace: Trace, held: int | None, pages: int, amounts: Amounts) -> tuple[int | None, _Refused | None]:
    """Pages that a kernel holds in a buffer that it feeds itself after a trace (None: not known).

    And (line, held, asked) of the first reservation that cannot be granted; what a branch reserves does not count.
    """
    refused: _Refused | None = None
    for step in trace:
        if held is None:
            break
        if isinstance(step, Loop):
            after, refused = _follow(step.body, held, pages, amounts)
            trips = amounts.integer(step.trips)
            if after is not None and after != held:
                after = held + trips * (after - held) if trips is not None else None
            held = after
        elif isinstance(step, Branch):
            yes, no = (_follow(side, held, pages, amounts)[0] for side in (step.yes, step.no))
            held = yes if yes == no else None
        elif (count := amounts.integer(step.count)) is None:
            held = None if step.kind in (PUSH, POP) else held
        elif step.kind == RESERVE and held > 0 and held + count > pages >= count:
            refused = step.line, held, count
        else:
            held += {PUSH: count, POP: -count}.get(step.kind, 0)
        if refused is not None:
            break
    return held, refused


RULE = Rule(
    "R5",
    "A kernel that feeds itself has room for what it holds and what it reserves",
    "the kernel waits for space that only its own later pop_front would free: it deadlocks with itself",
    "make the buffer as deep as held and reserved pages together, or pop before reserving",
    joined=_self_feeding,
)
