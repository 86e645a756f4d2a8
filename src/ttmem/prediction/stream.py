# SPDX-License-Identifier: Apache-2.0
"""What a model does to a device, in order: the one form that PyTorch models, compiled modules and recipes come to.

Its steps are those of the engines' protocol (``engines.worker.steps``), so twin and real library play the same one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Step = Mapping[str, Any]

WEIGHT, CACHE, CONSTANT, INPUT, RESERVE = "weight", "cache", "constant", "input", "reserve"
"""What a tensor is that lies on the device before the first operation. A reserve is memory that nobody names: trace
regions, sampling buffers, what a stack keeps free."""


@dataclass(frozen=True, slots=True)
class Resident:
    """A tensor that is on the device (or the host) before the model runs."""

    name: str
    """As the model calls it: ``layers.3.mlp.up_proj.weight``."""
    role: str
    step: Step
    """``{"alloc": name, ...}`` or ``{"host": name, ...}``."""
    preparation: tuple[Step, ...] = ()
    """What is done to it once when it is loaded (a layout, prepared convolution weights); the name stays."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A result that stays on the device for good, such as a weight that was made ready."""

    tensor: str
    name: str
    role: str


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One operation of the model: the calls that stand for it, and the tensors whose life ends with it."""

    name: str
    """What people look for: ``ttnn.linear``; of several calls the outermost one."""
    steps: tuple[Step, ...]
    frees: tuple[str, ...] = ()
    """Tensors that nobody uses afterwards."""
    module: str = ""
    """Where in the model: ``encoder.layer.3.attention``; ``file.mlir:41`` for compiled modules."""
    operator: str = ""
    """The aten operator, where there is one."""
    unsupported: str = ""
    """Why there is no call for it on the device; its results are still made, as a bound."""
    keeps: tuple[Kept, ...] = ()
    """Which of its results stay."""
    otherwise: tuple[Step, ...] = ()
    """What is done instead when the library refuses a step for another reason than memory: results as a bound."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A whole model on one chip."""

    name: str
    residents: tuple[Resident, ...]
    calls: tuple[ModelCall, ...]
    assumed: tuple[str, ...] = ()
    """What was decided here because the model does not say it, as sentences."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """For display: parameters, batch, size, recipe."""

    is_placed: bool = True
    """False: where tensors lie is left to the author of a port, so the peak is the upper end of an interval."""
    as_loaded_bytes: int = 0
    """Of such a stream: what a loader leaves on the device too that uploads weights as torch has them."""
    error_bound_percent: float | None = None
    """How far the DRAM peak of such a stream was from that of the program it stands for, where that was measured."""

    @property
    def unsupported(self) -> Sequence[ModelCall]:
        """Operations without a call on the device."""
        return [call for call in self.calls if call.unsupported]
