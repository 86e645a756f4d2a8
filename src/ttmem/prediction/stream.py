# SPDX-License-Identifier: Apache-2.0
"""A stream: what a model does to a device, in order. PyTorch models, compiled modules and recipes become streams.

Its steps are those of the engines' protocol (``engines.worker.steps``), so twin and real library play the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Step = Mapping[str, Any]

WEIGHT, CACHE, CONSTANT, INPUT, RESERVE = "weight", "cache", "constant", "input", "reserve"
"""Roles of tensors on the device before the first operation. A reserve is anonymous memory: trace
regions, sampling buffers, what a stack keeps free."""


@dataclass(frozen=True, slots=True)
class Resident:
    """A tensor that is on the device (or the host) before the model runs."""

    name: str
    """Name in the model: ``layers.3.mlp.up_proj.weight``."""
    role: str
    step: Step
    """``{"alloc": name, ...}`` or ``{"host": name, ...}``."""
    preparation: tuple[Step, ...] = ()
    """Steps once after loading (a layout, prepared convolution weights); the name stays."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A result that stays on the device, such as a prepared weight."""

    tensor: str
    name: str
    role: str


@dataclass(frozen=True, slots=True)
class ModelCall:
    """An operation of the model: its calls, and the tensors that it frees."""

    name: str
    """``ttnn.linear``; of several calls the outermost one."""
    steps: tuple[Step, ...]
    frees: tuple[str, ...] = ()
    """Tensors that are not used afterwards."""
    module: str = ""
    """Place in the model: ``encoder.layer.3.attention``; ``file.mlir:41`` for compiled modules."""
    operator: str = ""
    """The aten operator, if there is one."""
    unsupported: str = ""
    """Why there is no call for it on the device; its results are still allocated."""
    keeps: tuple[Kept, ...] = ()
    """Results that stay."""
    otherwise: tuple[Step, ...] = ()
    """Steps to use if the library refuses a step for another reason than memory."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A whole model on one chip."""

    name: str
    residents: tuple[Resident, ...]
    calls: tuple[ModelCall, ...]
    assumed: tuple[str, ...] = ()
    """Assumptions that the model does not state, as sentences."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """For display: parameters, batch, size, recipe."""

    is_placed: bool = True
    """False: the author of a port chooses the memory of tensors, so the peak is the upper end of an interval."""
    as_loaded_bytes: int = 0
    """Bytes that a loader also leaves on the device if it uploads weights as torch stores them."""
    error_bound_percent: float | None = None
    """Measured error of the DRAM peak of such streams, if known."""

    @property
    def unsupported(self) -> Sequence[ModelCall]:
        """Operations without a call on the device."""
        return [call for call in self.calls if call.unsupported]


def alloc_step(name: str, shape: Sequence[int], dtype: str, layout: str = "tile") -> dict[str, Any]:
    """Build the step that allocates an interleaved tensor in DRAM."""
    return {"alloc": name, "shape": list(shape) or [1], "dtype": dtype, "layout": layout, "memory": "DRAM"}


def call_step(
    name: str, args: Sequence[Any], out: str | list[str] = "", makes: Any = None, **options: Any
) -> dict[str, Any]:
    """Build the step that calls ``ttnn.<name>``; a string among the arguments is the name of a tensor."""
    step: dict[str, Any] = {"call": f"ttnn.{name}", "args": [_name_tensor(one) for one in args], "kwargs": options}
    return step | ({"out": out} if out else {}) | ({} if makes is None else {"makes": makes})


def _name_tensor(argument: Any) -> Any:
    return {"tensor": argument} if isinstance(argument, str) else argument
