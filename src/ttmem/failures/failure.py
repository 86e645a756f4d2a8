# SPDX-License-Identifier: Apache-2.0
"""``Failure``: an error text with its class and its figures, and the arithmetic that classifies failed allocations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttmem.hardware import Board


def _list_boards() -> list[Board]:
    """Return the boards that operations run on, and whose messages people have."""
    from ttmem.hardware import BOARDS  # here, because most messages name the bank and need no board

    return [board for board in BOARDS if board.runs_operations]


def find_largest_bank(memory: str | None, banks: int | None = None) -> int | None:
    """Return the largest bank of any board (with this number of DRAM banks), before any build takes its part."""
    boards = _list_boards()
    if memory in ("L1", "L1_SMALL"):
        return max(board.architecture.l1_bytes_per_core for board in boards)
    if memory != "DRAM":
        return None
    fitting = [board for board in boards if board.dram_banks == banks] or boards
    return max(board.architecture.dram_bytes_per_bank for board in fitting)


def _find_most_bytes(memory: str | None) -> int | None:
    """Return the bytes of all banks of the largest chip."""
    boards = _list_boards()
    if memory == "DRAM":
        return max(board.dram_banks * board.architecture.dram_bytes_per_bank for board in boards)
    if memory not in ("L1", "L1_SMALL"):
        return None
    most_cores = max(grid.cores for board in boards for _, grid in board.grids)
    return most_cores * max(board.architecture.l1_bytes_per_core for board in boards)


def classify_oom(
    need: int | None,
    bank_bytes: int | None,
    allocated: int | None,
    free: int | None,
    largest_free: int | None,
    memory: str | None,
) -> str:
    """Class of an allocation that failed, from the figures of its message; all of them bytes per bank.

    Figures that the message lacks are None, and a class is given only when the rest decide it. One rule is a
    likelihood: the messages of 2025 name the bank but not what is in it, and a request for more than half of a bank
    that is large enough is called ``capacity``. Two buffers of that size never fit side by side, so the usual reason
    is an input of like size; public messages that do carry statistics agree (needs above half of an L1 bank were
    short of space, the fragmented ones were below).
    """
    if memory == "TRACE":
        return "trace/region"  # the region is reserved at open: it is too small, whatever else DRAM holds
    if bank_bytes == 0:
        return "oom/unconfigured"
    if need is None:
        return "oom/unknown"
    if bank_bytes is not None and need > bank_bytes:
        return "oom/too-big"
    if free is None and bank_bytes is not None and allocated is not None:
        free = bank_bytes - allocated
    if free is not None:
        if free < need:
            return "oom/capacity"
        # A free block that is large enough contradicts the failure (a mistyped paste, or a limit that is not printed).
        return "oom/fragmented" if largest_free is not None and largest_free < need else "oom/unknown"
    if largest_free is None and bank_bytes is not None and 2 * need > bank_bytes:
        return "oom/capacity"
    return "oom/unknown"


def classify_oom_figures(numbers: dict[str, int], memory: str | None) -> str:
    """``classify_oom`` for the figures of a message, also of one that was cut before ``bytes_per_bank``."""
    bank_bytes, allocated, free, largest_free = (
        numbers.get(name) for name in ("bank_bytes", "allocated", "free", "largest_free")
    )
    need = numbers.get("bytes_per_bank")
    requested, banks = numbers.get("requested_bytes"), numbers.get("banks")
    if bank_bytes is None and memory != "TRACE" and _is_beyond_any_bank(need, requested, banks, memory):
        return "oom/too-big"
    if need is not None:
        return classify_oom(need, bank_bytes, allocated, free, largest_free, memory)
    # Pages are dealt round robin, so no bank can need less than its even share: a bound that can prove a shortage,
    # but not that a free block was large enough, hence no largest_free here.
    least_need = -(-requested // banks) if requested is not None and banks else None
    return classify_oom(least_need, bank_bytes, allocated, free, None, memory)


def _is_beyond_any_bank(need: int | None, requested: int | None, banks: int | None, memory: str | None) -> bool:
    """True when no board has a bank for it, though the message does not name the size of its banks."""
    if need is None and requested is not None and banks:
        need = -(-requested // banks)
    if need is not None:
        largest = find_largest_bank(memory, banks)
        return largest is not None and need > largest
    most = _find_most_bytes(memory)
    return requested is not None and most is not None and requested > most


def check_statistics(numbers: dict[str, int]) -> str | None:
    """Describe a contradiction in the statistics of a message: ``allocated + free`` is always the bank."""
    bank_bytes, allocated, free = (numbers.get(name) for name in ("bank_bytes", "allocated", "free"))
    if bank_bytes is not None and allocated is not None and free is not None and allocated + free != bank_bytes:
        return f"allocated + free is {allocated + free} B but the bank is {bank_bytes} B: a figure is mistyped"
    largest_free = numbers.get("largest_free")
    if free is not None and largest_free is not None and largest_free > free:
        return f"the largest free block ({largest_free} B) exceeds all free space ({free} B): a figure is mistyped"
    return None


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure as its text reports it; nothing here is inferred from outside the text.

    ``numbers`` holds only figures that the text prints (or that follow from them by one subtraction, such as
    ``overlap_bytes``): a cut message has fewer. All byte figures of an allocator failure except
    ``requested_bytes`` are per bank. The mappings are plain dicts so that a failure can cross a process boundary.
    """

    failure_class: str
    """A class of DESIGN 3.6, for example ``oom/fragmented``."""
    memory: str | None
    """``DRAM``, ``L1``, ``L1_SMALL``, ``TRACE``, or None when the text does not say or no memory is concerned."""
    message: str
    """The message itself: blanks normalised, without logger prefixes, margins, colours and source suffixes."""
    template: str
    """The id of the template that matched (``A3``, ``C1``; ``X1`` and ``R1`` for asserts of unknown wording)."""
    numbers: Mapping[str, int] = field(default_factory=dict, hash=False)
    texts: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Named words of the text: ``core_range``, ``buffer_family``, ``signal``, ``file``, ``condition``, ``note``."""
    line: int | None = None
    """Where the text first says it, 1-based."""
    is_warning: bool = False
    """The library printed this and went on: worth explaining, but not what ended a run."""

    @property
    def core_text(self) -> str:
        """The message with every figure blanked, so that ``1,024`` and ``1024`` are the same sentence."""
        return re.sub(r"\d[\d,_']*", "#", self.message)

    @property
    def key(self) -> str:
        """Equal for two prints of the same failure (metal line, PJRT line, Python line), stable between runs.

        The source file is left out: only one of the prints carries it.
        """
        numbers = ",".join(f"{name}={value}" for name, value in sorted(self.numbers.items()))
        texts = ",".join(f"{name}={value}" for name, value in sorted(self.texts.items()) if name not in PRINT_ONLY)
        return "|".join((self.failure_class, self.memory or "", numbers, texts, self.core_text))


PRINT_ONLY = frozenset({"file", "condition"})
"""Texts that belong to one print of a failure (the exception), not to the failure itself."""
