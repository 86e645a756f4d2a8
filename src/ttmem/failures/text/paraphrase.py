# SPDX-License-Identifier: Apache-2.0
"""Texts that tell of a failure in a person's own words, or with the middle of a message: a guess by those words.

Only for texts short enough to be about one thing, in which nothing of the library's own wording was found.
"""

import re
from functools import cache

from ttmem.failures.classes import largest_bank_bytes, oom_class_of
from ttmem.failures.facts import facts
from ttmem.failures.failure import Failure
from ttmem.failures.knowledge.tables import Paraphrase, entries

MOST_CHARACTERS = 2000
TEMPLATE = "P"
"""Stands where the id of a template would."""
_MOST_BYTES = 1 << 63
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def paraphrased(text: str, line: int | None = 1) -> Failure | None:
    """The failure that a short text speaks of, None when its words are of none."""
    flat = " ".join(text[: MOST_CHARACTERS + 1].replace("\u2019", "'").split())
    if not flat or len(text) > MOST_CHARACTERS:
        return None
    for entry, words in _compiled():
        if all(expression.search(flat) for expression in words):
            return None if entry.failure_class == "none" else _failure(entry, flat, line)
    return None


def _failure(entry: Paraphrase, text: str, line: int | None) -> Failure:
    numbers = _figures(text)
    memory = entry.memory or _memory_in(text, entry.failure_class, numbers.get("bank_bytes"))
    failure_class = oom_class_of(numbers, memory) if entry.failure_class == "oom" else entry.failure_class
    address, end = numbers.get("l1_buffer_address"), numbers.get("region_end")
    if address is not None and end is not None and end > address:
        numbers["overlap_bytes"] = end - address
    texts = {**entry.texts, "paraphrase": "yes"}
    return Failure(failure_class, memory, text, TEMPLATE, numbers=numbers, texts=texts, line=line)


def _memory_in(text: str, failure_class: str, bank_bytes: int | None) -> str | None:
    """The memory that the words name, or that a bank of this size belongs to, for classes that have one."""
    if failure_class.partition("/")[0] not in ("oom", "shard", "page"):
        return None
    for memory, words in facts("patterns")["memories"].items():
        if re.search(words, text):
            return str(memory)
    if bank_bytes is None:
        return None
    return "L1" if bank_bytes <= (largest_bank_bytes("L1") or 0) else "DRAM"


def _figures(text: str) -> dict[str, int]:
    """Amounts that the text names for what they are; units are binary, as everywhere here."""
    found: dict[str, int] = {}
    for name, expression in facts("patterns")["figures"].items():
        if match := re.search(expression, text, re.IGNORECASE):
            amount = float(re.sub(r"[,_']", "", match["number"])) * _UNITS[match["unit"][:1].lower()]
            if amount < _MOST_BYTES:
                found[name] = int(amount)
    return found


@cache
def _compiled() -> tuple[tuple[Paraphrase, tuple[re.Pattern[str], ...]], ...]:
    return tuple(
        (entry, tuple(re.compile(words, re.IGNORECASE) for words in entry.words)) for entry in entries(Paraphrase)
    )
