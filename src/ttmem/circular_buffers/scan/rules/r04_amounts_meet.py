# SPDX-License-Identifier: Apache-2.0
"""R4: pushes and pops that do not balance, or never meet."""

import math
from pathlib import PurePath

from ttmem.circular_buffers.scan.cpp.polynomials import (
    Amounts,
    as_constant,
    is_certainly_positive,
    plus,
    uses_own_leaves,
)
from ttmem.circular_buffers.scan.kernel.trace import POP, PUSH, RESERVE, WAIT, buffer_name, first_lines, total_of
from ttmem.circular_buffers.scan.link_host_and_kernels import JoinedBuffer, JoinedProgram
from ttmem.circular_buffers.scan.model import Kernel
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, Rule


def _within_one_kernel(kernel: Kernel, amounts: Amounts) -> Breaches:
    """A kernel that is both sides of a buffer."""
    for buffer, own in kernel.whole_buffers():
        lines = first_lines(own)
        pushed, popped = total_of(own, PUSH, amounts), total_of(own, POP, amounts)
        if not {PUSH, POP} <= lines.keys() or pushed is None or popped is None:
            continue
        difference = as_constant(plus(pushed, popped, -1))
        if difference:
            more, less = ("pushes", "pops") if difference > 0 else ("pops", "pushes")
            text = f"the kernel {more} {abs(difference)} pages of buffer {buffer_name(buffer)} more than it {less}"
            yield Breach(kernel.figures.file, lines[PUSH if difference > 0 else POP], text)


def _between_two_kernels(joined: JoinedProgram) -> Breaches:
    for key in joined.keys:
        producers, consumers = joined.touching(key, PUSH), joined.touching(key, POP)
        if len(producers) != 1 or len(consumers) != 1 or producers[0].kernel is consumers[0].kernel:
            continue
        sides = (producers[0], consumers[0])
        if any(side.kernel.use.conditions or not side.kernel.use.one_thread or side.is_hidden for side in sides):
            continue
        yield from _totals(*sides)
        yield from _meeting(*sides)


def _totals(producer: JoinedBuffer, consumer: JoinedBuffer) -> Breaches:
    pushed, popped = producer.total(PUSH), consumer.total(POP)
    if pushed is None or popped is None or uses_own_leaves(pushed) or uses_own_leaves(popped):
        return
    difference = plus(pushed, popped, -1)
    more = is_certainly_positive(difference)
    if not more and not is_certainly_positive(plus({}, difference, -1)):
        return
    amounts = (as_constant(pushed), as_constant(popped))
    known = f" ({amounts[0]} and {amounts[1]} pages)" if None not in amounts else ""
    text = (
        f"{PurePath(producer.kernel.file).name} pushes {'more' if more else 'fewer'} pages of buffer "
        f"{producer.name} than this kernel pops{known}"
    )
    yield Breach(consumer.kernel.file, consumer.steps(POP)[0].line, text)


def _meeting(producer: JoinedBuffer, consumer: JoinedBuffer) -> Breaches:
    """Constant steps p and c need p + c - gcd(p, c) pages, or both sides wait with the buffer part full."""
    pages, reserved, waited = producer.pages, producer.only_count(RESERVE), consumer.only_count(WAIT)
    if pages is None or not reserved or not waited or reserved > pages or waited > pages:
        return
    if reserved != producer.only_count(PUSH) or waited != consumer.only_count(POP):
        return
    total = as_constant(producer.total(PUSH))
    if total is not None and total <= pages:
        return  # everything fits at once: nobody has to wait for space
    needed = reserved + waited - math.gcd(reserved, waited)
    if pages < needed:
        text = (
            f"steps of {reserved} pages in and {waited} out never meet in buffer {producer.name} of {pages} "
            f"pages: at least {needed} are needed"
        )
        yield Breach(consumer.kernel.file, consumer.steps(WAIT)[0].line, text)


RULE = Rule(
    "R4",
    "What is pushed is popped, in amounts that can meet",
    "a consumer that asks for more than is pushed hangs; left-over pages meet the next program",
    "let both sides move the same number of pages, and the buffer hold one step of each",
    detail="steps p and c need p + c - gcd(p, c) pages",
    kernel=_within_one_kernel,
    joined=_between_two_kernels,
)
