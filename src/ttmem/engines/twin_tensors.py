# SPDX-License-Identifier: Apache-2.0
"""The tensors that the steps of a case have named, on the twin's device and on the host."""

from __future__ import annotations

from ttmem.base.errors import BadInputError
from ttmem.twin.device import Buffer, Device
from ttmem.twin.tensor_spec import TensorSpec


class NamedTensors:
    """Tensors by name. A buffer is freed with its last name: a view keeps it."""

    def __init__(self, other: NamedTensors | None = None) -> None:
        self.named: dict[str, tuple[Buffer, TensorSpec]] = dict(other.named) if other else {}
        self._uses: dict[int, int] = dict(other._uses) if other else {}
        """Number of names of a buffer, by identity; a buffer freed by force has none."""
        self.on_host: dict[str, TensorSpec] = dict(other.on_host) if other else {}
        self.further: dict[str, list[str]] = dict(other.further) if other else {}
        """Names of a call's other results, where its ``out`` is one name for all of them."""

    def keep(self, name: str, buffer: Buffer, spec: TensorSpec, device: Device) -> None:
        self._uses[id(buffer)] = self._uses.get(id(buffer), 0) + 1
        if name in self.named:
            self.drop(name, device)
        self.named[name] = buffer, spec

    def drop(self, name: str, device: Device, *, by_force: bool = False) -> None:
        if self.on_host.pop(name, None) is not None:
            return
        buffer, _ = self.find(name)
        del self.named[name]
        left = self._uses.get(id(buffer), 0) - 1
        if left > 0 and not by_force:
            self._uses[id(buffer)] = left
        elif self._uses.pop(id(buffer), 0):
            device.free(buffer)

    def free(self, buffer: Buffer, device: Device) -> None:
        if self._uses.pop(id(buffer), 0):
            device.free(buffer)

    def find(self, name: str) -> tuple[Buffer, TensorSpec]:
        try:
            return self.named[name]
        except KeyError:
            raise BadInputError(f"there is no tensor '{name}'") from None
