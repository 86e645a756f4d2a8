# SPDX-License-Identifier: Apache-2.0
"""What happens in a capture, in one vocabulary for all its forms: node lists, reports and databases."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from ttmem.engines.worker.graph_nodes.programs import StaticBuffer
from ttmem.profile.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class CapturedBuffer:
    """A buffer as a node or a snapshot describes it."""

    key: Hashable
    """What tells it from every other buffer alive at the same time."""
    memory: str
    address: int
    stored_bytes_per_bank: int
    """Before rounding to the allocator's quantum; -1 when it must be worked out from the tensor."""
    total_bytes: int
    tensor: TensorType | None = None
    tensor_name: str = ""


@dataclass(frozen=True, slots=True)
class Allocated:
    """A buffer came to be."""

    buffer: CapturedBuffer


@dataclass(frozen=True, slots=True)
class Freed:
    """A buffer went; it is described too, because it may be older than the capture."""

    buffer: CapturedBuffer


@dataclass(frozen=True, slots=True)
class Used:
    """A buffer was read as an argument; it is described too, because it may be older than the capture."""

    buffer: CapturedBuffer


@dataclass(frozen=True, slots=True)
class ProgramStarted:
    """A program is set up: what earlier ones had in L1 is gone."""


Event = Allocated | Freed | Used | ProgramStarted | StaticBuffer
"""A static buffer belongs to the program that is being set up."""


@dataclass(slots=True)
class CapturedOperation:
    """One top-level operation, or (without a name) what happened between two of them."""

    name: str
    number: int = 0
    """Its place in the source: a node's number or the database's operation id."""
    location: str = ""
    events: list[Event] = field(default_factory=list)
    snapshot: list[CapturedBuffer] | None = None
    """Everything alive after it, when the source says so."""
    failure: str = ""
    programs_known: bool = True
    """False: it ran programs whose L1 the capture does not (fully) show."""

    @property
    def is_outside(self) -> bool:
        """Whether this is a pause between operations."""
        return not self.name
