# SPDX-License-Identifier: Apache-2.0
"""R7: one half of a pair without the other."""

from ttmem.circular_buffers.scan.cpp.polynomials import Amounts
from ttmem.circular_buffers.scan.kernel.trace import POP, PUSH, RESERVE, WAIT, buffer_name, first_lines
from ttmem.circular_buffers.scan.model import WARNING, Kernel
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, Rule

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


RULE = Rule(
    "R7",
    "Every reserve_back has its push_back, every wait_front its pop_front",
    "the buffer's state leaks: the other side waits for ever, or the next program finds pages it did not expect",
    "add the missing half; resident or scratch buffers may do without, on purpose",
    severity=WARNING,
    kernel=_halves,
)
