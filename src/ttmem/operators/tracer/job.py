# SPDX-License-Identifier: Apache-2.0
"""The job and its errors, for both sides. (The standard library alone.)"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TraceJob:
    """A model at one size."""

    target: str
    """``file.py::load_model`` or ``hf:ViTConfig``."""
    inputs: str = ""
    size: tuple[int, int] | None = None
    """Height and width; None: the model's own."""
    settings: dict[str, Any] = field(default_factory=dict)
    batch: int = 1
    sequence: int = 128
    eager_attention: bool = False
    as_graph: bool = False
    """Every call in order and what feeds it, instead of the distinct cases."""
    known: tuple[str, ...] = ()
    """For a graph: operators to keep; all others are decomposed where torch can."""
    fused_heads_of: int = 0
    """For a graph: attention whose heads are no multiple of it is decomposed too."""
    describes: bool = False
    """The configuration alone is wanted: nothing is built."""

    @property
    def model(self) -> str:
        """A name for people: the configuration, or the file and its function where that says more."""
        if self.target.startswith("hf:"):
            return self.target.removeprefix("hf:")
        place, _, function = self.target.partition("::")
        stem = Path(place).stem
        return stem if function == "load_model" else f"{stem}.{function}"

    @property
    def size_text(self) -> str:
        return "x".join(map(str, self.size)) if self.size else ""


BAD_TARGET, MISSING_PACKAGE, REFUSED = "bad_target", "missing_package", "refused"
"""No such file, function, config or input; the model's own package is not installed; it cannot be built or run."""


class TracerError(Exception):
    """Reason why a model could not be traced; ``kind`` selects the remedy on the other side."""

    def __init__(self, message: str, kind: str = BAD_TARGET) -> None:
        super().__init__(message)
        self.kind = kind


def sentence(error: BaseException) -> str:
    """The first line that says something, bounded: frameworks answer with pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text[:300]
