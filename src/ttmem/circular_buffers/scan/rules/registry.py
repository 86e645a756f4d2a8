# SPDX-License-Identifier: Apache-2.0
"""The thirteen rules of circular buffers: what breaks them, why it matters, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.circular_buffers.scan.model import Finding


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `why` names the consequence, `fix` the usual way out."""

    identifier: str
    title: str
    why: str
    fix: str


_RULES = (
    Rule(
        "R1",
        "A count never exceeds the buffer's capacity",
        "reserve_back or wait_front waits for pages that the buffer cannot hold: it never returns and the core hangs",
        "make the buffer at least as deep as the largest count, or split the step",
    ),
    Rule(
        "R2",
        "Steps add up to the capacity over one lap",
        "the pointer wraps only when it meets the end exactly; a step across the end writes behind the buffer",
        "make the capacity a multiple of the step",
    ),
    Rule(
        "R3",
        "Repeated wait_front without pop_front is cumulative",
        "wait_front counts from the front: the same count again waits for nothing new, and unread pages are popped",
        "wait for the running total (n, 2n, 3n, ...) or pop what was waited for",
    ),
    Rule(
        "R4",
        "What is pushed is popped, in amounts that can meet",
        "a consumer that asks for more than is pushed hangs; left-over pages meet the next program",
        "let both sides move the same number of pages, and the buffer hold one step of each",
    ),
    Rule(
        "R5",
        "A kernel that feeds itself has room for what it holds and what it reserves",
        "the kernel waits for space that only its own later pop_front would free: it deadlocks with itself",
        "make the buffer as deep as held and reserved pages together, or pop before reserving",
    ),
    Rule(
        "R6",
        "One producer and one consumer per buffer and core",
        "both sides keep their own counters; two kernels on one side race for them, which hangs now and then",
        "give each kernel its own buffer, or its own cores",
    ),
    Rule(
        "R7",
        "Every reserve_back has its push_back, every wait_front its pop_front",
        "the buffer's state leaks: the other side waits for ever, or the next program finds pages it did not expect",
        "add the missing half; resident or scratch buffers may do without, on purpose",
    ),
    Rule(
        "R8",
        "No two kernels wait for each other's first page",
        "each waits for a page that the other pushes only after its own wait: neither ever starts",
        "push the first page before waiting, in one of them",
    ),
    Rule(
        "R9",
        "A buffer holds as much as its twin lags behind",
        "one kernel fills two buffers in step while the other drains one of them first: the full one stops both",
        "make the lagging buffer deep enough for the skew, or drain both in step",
    ),
    Rule(
        "R10",
        "The configuration is one the library accepts",
        "the program is refused when it is built, or reads pages of the wrong size",
        "make the total a multiple of the page, the page that of the format, and the index free and within limits",
    ),
    Rule(
        "R11",
        "Page counts fit 16 bits",
        "the counters wrap at 65,536: reserve_back returns too early",
        "use larger pages or fewer of them",
    ),
    Rule(
        "R12",
        "A page is handed over after its transfer",
        "the other side may read the page before the data is there, or overwrite it before it has left",
        "put the barrier between the transfer and push_back or pop_front",
    ),
    Rule(
        "R13",
        "The buffers end below the top of L1 and below the lowest tensor",
        "the launch fails: buffers grow beyond L1, or clash with L1 tensors",
        "make buffers shallower, move tensors to DRAM, or spread the work over more cores",
    ),
)
RULES = {rule.identifier: rule for rule in _RULES}


def finding(rule: str, severity: str, file: str, line: int, message: str) -> Finding:
    """A finding with its rule's reason and remedy."""
    known = RULES[rule]
    return Finding(rule, severity, file, line, message, known.why, known.fix)
