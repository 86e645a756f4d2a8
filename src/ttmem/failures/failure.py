# SPDX-License-Identifier: Apache-2.0
"""``Failure``: an error text with its class and its arithmetic, the one word the house has for it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure as its text tells it; nothing here is inferred from outside the text.

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
